"""Make the project's environment: `.venv` from the locked, hashed list, the project itself, a Java,
the jars.

Runs under any Python 3.11+ with nothing installed, so it imports only the standard library. Each
step leaves a stamp inside `.venv` with the hash of what it was made from: a second run does
nothing, a run after a crash starts the unfinished step again, a half-made `.venv` is made anew.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv"
PYTHON = HOME / "bin" / "python"
PYTHON_MIN = (3, 11)
PACKAGES = ("schemas", "events", "processors", "brokers", "lakehouse", "infra", "tests")
PIP = [
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--quiet",
    "--require-hashes",
    "--no-deps",
]


class SetupFailed(Exception):
    """A step did not work; the text says which and what to do."""


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def stamp_value(*files: Path) -> str:
    """What a step was made from: the Python version and the bytes of its input files."""
    digest = hashlib.sha256(f"{sys.version_info[:3]} {HOME}".encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def step(name: str, value: str, work: object, text: str) -> bool:
    """Run `work` unless its stamp says it is done; gives whether it ran."""
    stamp = HOME / f".stamp-{name}"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == value:
        return False
    say(f"{text} …")
    began = time.monotonic()
    work()  # type: ignore[operator]
    stamp.write_text(value, encoding="utf-8")
    say(f"{text}: done in {time.monotonic() - began:.1f} s")
    return True


def run(arguments: list[str], way_out: str) -> None:
    """Run the environment's Python; SetupFailed with the way out when it fails."""
    if subprocess.run([str(PYTHON), *arguments], cwd=ROOT, check=False).returncode != 0:
        raise SetupFailed(way_out)


def make_venv() -> None:
    """An empty environment; whatever a crash left there is cleared."""
    try:
        venv.EnvBuilder(clear=True, with_pip=True).create(HOME)
    except (subprocess.CalledProcessError, OSError) as error:
        raise SetupFailed(
            f"cannot make {HOME} ({error}). On Debian install the package python3-venv."
        ) from error


def install_locked() -> None:
    """Every package of requirements.lock, hashes checked; what builds source packages comes
    first.
    """
    network = (
        "pip could not install the locked packages. Check the network and run 'make setup' again."
    )
    run([*PIP, "-r", "requirements-build.lock"], network)
    run([*PIP, "--no-build-isolation", "-r", "requirements.lock"], network)


def install_project() -> None:
    """The project itself, editable, without touching the network."""
    command = [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
    ]
    run(
        [*command, "--no-index", "--editable", "."],
        "the project itself could not be installed; see above.",
    )


def compile_modules() -> None:
    """Python's bytecode beside each module that has none or an old one: where Python is told not to
    write it (PYTHONDONTWRITEBYTECODE, as in many images), every process would compile two hundred
    modules at its start, half a second of processor time.
    """
    run(["-m", "compileall", "-q", *PACKAGES], "a module of the project cannot be compiled.")


def main() -> int:
    """`python3 infra/environment.py`: what `make setup` runs."""
    if sys.version_info < PYTHON_MIN:
        print(
            f"setup: Python {sys.version.split()[0]} is too old. Use 3.11 or newer: make setup "
            "PYTHON=python3.12."
        )
        return 2
    locks = [ROOT / "requirements-build.lock", ROOT / "requirements.lock"]
    try:
        fresh = step(
            "venv",
            stamp_value(),
            make_venv,
            f"environment {HOME} with Python {sys.version.split()[0]}",
        )
        step(
            "packages",
            stamp_value(*locks),
            install_locked,
            "packages from requirements.lock (the first time minutes)",
        )
        step("project", stamp_value(ROOT / "pyproject.toml"), install_project, "the project itself")
        compile_modules()
        run(["-m", "infra.jars.java", "--ensure"], "no usable Java; see above.")
        run(["-m", "infra.jars.store"], "the jars are not complete; see above.")
    except SetupFailed as failed:
        print(f"setup: {failed}", file=sys.stderr)
        return 1
    if fresh:
        say("ready")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "setup: interrupted; run 'make setup' again to go on where it stopped.", file=sys.stderr
        )
        sys.exit(130)
