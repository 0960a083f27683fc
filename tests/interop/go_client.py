"""The stock client for Go: rocketmq-client-go, built with our small program around it.

Responsible for: building the program at first use, from the versions that go.mod and go.sum pin.
Refuses to know: what the program does, and who reads its lines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from infra.problems import Problem
from tests.interop.stage import HERE, Skipped, Stage

SOURCE = HERE / "go_client"
BUILD_WITHIN_S = 600.0
NO_COMPILER = "no Go here: its client is not tried; install Go 1.21 or newer to try it"


def go(stage: Stage) -> list[str]:
    """The Go client's program. Skipped where there is no Go, Problem when it does not build."""
    program = stage.work / "go-client"
    if not program.exists():
        _build(program)
        stage.say(f"{version()} is built")
    return [str(program)]


def version() -> str:
    """The client's name and the version that is pinned."""
    lines = (SOURCE / "go.mod").read_text(encoding="utf-8").splitlines()
    found = next(line.split() for line in lines if "rocketmq-client-go/v2 v" in line)
    return f"rocketmq-client-go {found[-1]}"


def _build(program: Path) -> None:
    compiler = shutil.which("go")
    if compiler is None:
        raise Skipped(NO_COMPILER)
    done = subprocess.run(
        [compiler, "build", "-mod=readonly", "-o", str(program), "."],
        cwd=SOURCE,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=BUILD_WITHIN_S,
        check=False,
    )
    if done.returncode:
        raise Problem(
            f"the Go client does not build: {done.stderr.strip()[-300:]}",
            "The Go module proxy must be reachable the first time; else 'go env GOPROXY' says where"
            " modules come from.",
        )
