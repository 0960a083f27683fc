"""Says whether a change left behaviour as it was, beside another revision.

    make unchanged REV=main

Three things are compared with `--rev`: the bytes of every golden file, what the golden histories
fold to (their tests run on the present code), and the trace hashes of worlds of every kind, made
with both codes. A change that only moves, names or lays out leaves all of them equal. Exit code 0:
all equal; 1: something differs, and is named; 2: usage.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORLDS = {
    "tests.simulation.run": (1, 2, 3, 4, 5, 6),
    "tests.simulation.control.run": (1, 2, 3),
    "tests.simulation.store.run": (1, 2, 3),
    "tests.simulation.majority.run": (1, 2, 3),
}
NOT_DATA = frozenset({".py", ".pyc", ".md"})


def golden_bytes(tree: Path) -> dict[str, str]:
    """File name under `tests/golden` -> digest of its bytes."""
    top = tree / "tests/golden"
    return {
        str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.suffix not in NOT_DATA
    }


def trace_hashes(tree: Path) -> dict[str, str]:
    """World -> the hash of everything that happened in it, run with the code of `tree`."""
    found = {}
    for module, seeds in WORLDS.items():
        for seed in seeds:
            done = subprocess.run(
                [sys.executable, "-m", module, "--seeds", "1", "--from", str(seed), "--trace"],
                check=False,
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree)},
                capture_output=True,
                text=True,
            )
            lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines()
            found[f"{module} {seed}"] = lines[-1] if lines else "nothing was printed"
    return found


def differences(kind: str, before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    """A line for each that is not as it was; what is new is none."""
    for name, value in before.items():
        if now.get(name) != value:
            yield f"{kind} {name}: {value} before, {now.get(name, 'not there')} now"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare behaviour with another revision.")
    parser.add_argument("--rev", default="main", help="the revision to compare with")
    rev = parser.parse_args().rev
    with tempfile.TemporaryDirectory(prefix="regent-unchanged-") as folder:
        old = Path(folder) / "old"
        archive = subprocess.run(
            ["git", "archive", rev], check=False, cwd=ROOT, capture_output=True
        )
        if archive.returncode:
            print(f"unchanged: {archive.stderr.decode().strip()}", file=sys.stderr)
            return 2
        old.mkdir()
        subprocess.run(["tar", "-x", "-C", old], input=archive.stdout, check=True)
        found = [*differences("golden file", golden_bytes(old), golden_bytes(ROOT))]
        print(f"worlds of {rev} and of the present code …", flush=True)
        found += differences("world", trace_hashes(old), trace_hashes(ROOT))
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/golden"], check=False, cwd=ROOT
    )
    if tests.returncode:
        found.append("tests/golden fails")
    for line in found:
        print(line)
    print(f"unchanged: {'no difference' if not found else f'{len(found)} differences'} to {rev}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
