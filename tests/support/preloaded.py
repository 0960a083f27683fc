"""Small C libraries that a process under test is started with (LD_PRELOAD).

Refuses to know: what they do, and whose process it is.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from infra.problems import Problem


def build(source: Path, folder: Path) -> Path:
    """The library of that C file, made in `folder`. Problem without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Problem(f"no C compiler: {source.name} cannot be built", "install one (cc)")
    library = folder / f"{source.stem}.so"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Problem(f"{source.name} cannot be compiled", done.stderr.strip()[-200:])
    return library
