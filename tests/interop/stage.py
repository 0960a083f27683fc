"""What a scenario of the interop run gets and gives back.

Responsible for: the run's folder, the Java client's class path, the processes that scenarios share,
progress lines.
Refuses to know: what a scenario proves.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from infra.jars import store
from infra.problems import Problem
from tests.interop.java_rocketmq import JavaWorld

HERE = Path(__file__).resolve().parent
CLIENT_LOCK = HERE / "rocketmq-client.lock"
CLIENT_PROGRAMS = tuple(
    HERE / f"{name}.java" for name in ("InteropClient", "FilterClient", "PopClient")
)
NO_COMPILER = 2

Shared = TypeVar("Shared")


class Skipped(Exception):
    """A scenario that cannot be played on this machine; the text says what it wants."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table at the end: what was looked at, what came out, and whether that is
    right.
    """

    what: str
    result: str
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """A function `run(stage) -> list[Row]` in a module of this folder; a Problem or AssertionError
    fails it.
    """

    name: str
    module: str
    line: str

    def load(self) -> Callable[[Stage], list[Row]]:
        module, _, function = self.module.partition(":")
        found: Callable[[Stage], list[Row]] = getattr(
            importlib.import_module(f"tests.interop.{module}"), function or "run"
        )
        return found


@dataclass(slots=True)
class Stage:
    """One run of `make interop`."""

    work: Path
    options: dict[str, Any] = field(default_factory=dict)
    keep: bool = False
    documents: dict[str, Any] = field(default_factory=dict)
    """What a scenario adds to the JSON document, by its name."""
    configurations: list[str] = field(default_factory=list)
    """The Java configurations used, printed once at the end."""
    _java: JavaWorld | None = None
    _class_path: str | None = None
    _shared: dict[str, Any] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def say(self, text: str) -> None:
        """A progress line, on standard error."""
        print(f"  {text}", file=sys.stderr, flush=True)

    @property
    def java(self) -> JavaWorld:
        """The world of Java servers of this run."""
        if self._java is None:
            self._java = JavaWorld(self.work / "java", self.say, keep=self.keep)
        return self._java

    @property
    def client_class_path(self) -> str:
        """The Java client's jars and the programs; compiled at first use. Problem with code 2
        without a JDK.
        """
        if self._class_path is None:
            self._class_path = build_client(self.work, self.say)
        return self._class_path

    def configured(self, text: str) -> None:
        """Note a Java configuration that was used."""
        if text not in self.configurations:
            self.configurations.append(text)

    # -- what scenarios share ----------------------------------------------------------------------

    def shared(self, name: str, make: Callable[[ExitStack], Shared]) -> Shared:
        """The shared thing of that name, made at first use; what `make` puts on the stack ends with
        it.
        """
        if name not in self._shared:
            self.drop_shared()
            self._shared[name] = make(self._stack)
        found: Shared = self._shared[name]
        return found

    def failed(self) -> None:
        """Something went wrong: leave what helps to find out why, then end what is shared."""
        if self.keep and self._java is not None:
            self._java.dump_threads()
        self.drop_shared()

    def drop_shared(self) -> None:
        """End what is shared: after a failure, or to have the machine for oneself."""
        self._shared.clear()
        self._stack.close()

    def end(self) -> None:
        """End every process of the run."""
        try:
            self.drop_shared()
        finally:
            if self._java is not None:
                self._java.end()


def compiler() -> str:
    """The Java compiler at hand; exit 2 where there is only a JRE."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=f"{home}/bin") if home else None
    found = found or shutil.which("javac")
    if not found:
        raise Problem(
            "no Java compiler: make interop needs a JDK 17 or newer, a JRE is not enough",
            "install a JDK or set JAVA_HOME",
            NO_COMPILER,
        )
    return found


def build_client(work: Path, say: Callable[[str], None]) -> str:
    """Fetch the client's jars, compile the programs; returns the class path."""
    javac = compiler()
    jars = client_jars(say)
    classes = work / "classes"
    classes.mkdir(parents=True)
    subprocess.run(
        [javac, "-cp", f"{jars}/*", "-d", str(classes), *map(str, CLIENT_PROGRAMS)], check=True
    )
    return f"{jars}/*:{classes}"


def client_jars(say: Callable[[str], None]) -> Path:
    """The folder of the client's jars, fetched where they are not there."""
    jars = store.cache_dir() / "rocketmq-client"
    fetched = store.fetch_lock(CLIENT_LOCK, jars, store.base_urls, say)
    say(
        f"rocketmq-client 5.3.3: {len(store.read_lock(CLIENT_LOCK))} jars in {jars}, "
        f"{fetched} fetched"
    )
    return jars
