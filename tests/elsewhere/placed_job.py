"""A landing job whose configuration file sends it elsewhere, and what verbs say of the tables
there.

Responsible for: the log that is landed, starts of the job, comparing what landed with the log,
asking the command line.
Refuses to know: where elsewhere is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from events.topics import COMMANDS_TOPIC
from infra.cluster import toml_text
from infra.kafka.server import LocalKafka
from infra.processes import children
from lakehouse.landing.status import LandingStatus, missing_offsets
from tests.interop.stage import Row
from tests.support.landing_stage import (
    Job,
    Load,
    differences,
    ends_of,
    long_history,
    make_topics,
    whole_log,
)
from tests.support.local_cluster import ROOT, regent

ALTERATIONS = 20
PAUSE_S = 0.01
VERB_LIMIT_S = 600.0
# No healthy run needs as long; each of some forty tables is appended to through a cluster that has
# just begun.
PATIENCE_S = 800
TOLD_CHARS = 160
# The load begins with bytes in the outcomes that are no record.
NO_OUTCOME = (
    "regent.outcomes offset 0: unreadable: MalformedRecord: no single-object marker and fingerprint"
)


class PlacedJob(Job):
    """One start of `regent land` by a file of `settings`; see `Job` for what may be asked of it."""

    def __init__(
        self, base: Path, name: str, settings: Mapping[str, object], environ: Mapping[str, str]
    ) -> None:
        self.folder, self.log = base / "land", base / f"{name}.log"
        self.folder.mkdir(exist_ok=True)
        config = base / "land.toml"
        config.write_text(toml_text.dumps({**settings, "work_dir": self.folder}), encoding="utf-8")
        command = [sys.executable, "-m", "infra", "land", "--config", str(config)]
        self.process = children.spawn(command, self.log, {**os.environ, **environ}, ROOT)

    def wait_landed(self, commands: int) -> LandingStatus:
        """Until bronze holds so many commands."""
        return self.wait_until(
            lambda status: status.landed.get(f"{COMMANDS_TOPIC}-0", 0) >= commands, PATIENCE_S
        )

    def finish(self, bootstrap: str) -> None:
        """Let it land all that the log holds, and stop it in order."""
        ends = ends_of(bootstrap)
        self.wait_until(
            lambda status: status.ready and not missing_offsets(status, ends), PATIENCE_S
        )
        assert self.end(signal.SIGTERM) == 0, self.said


class Ground:
    """A log in Kafka, and the jobs that land it one after the other."""

    def __init__(self, home: Path, bootstrap: str, load: Load, held: ExitStack) -> None:
        self._home, self.bootstrap, self.load, self._held = home, bootstrap, load, held
        self._jobs = 0

    @property
    def half(self) -> int:
        """Of the commands that there will be."""
        return len(self.load.commands) // 2

    def begin(self, settings: Mapping[str, object], environ: Mapping[str, str] = {}) -> PlacedJob:
        """Another start of the job; it ends with the ground at the latest."""
        self._jobs += 1
        own = {
            "kafka": {"bootstrap.servers": self.bootstrap},
            "gold_every_s": 5,
            "check_every_s": 30,
        }
        job = PlacedJob(self._home, f"job-{self._jobs}", {**settings, **own}, environ)
        self._held.callback(children.stop, job.process, 0.0)  # its Java too
        return job

    def compared(self, tables: str) -> Row:
        """Bronze and every silver table beside the log, record for record."""
        log = whole_log(self.bootstrap)
        wrong = differences(tables, log)
        return Row(
            "tables beside the log",
            "; ".join(wrong)[:TOLD_CHARS] or f"equal, {len(log)} records each once",
            not wrong,
        )


@contextmanager
def ground(home: Path) -> Iterator[Ground]:
    """Kafka with a history to come, in a folder that is made."""
    home.mkdir()
    with ExitStack() as held:
        kafka = held.enter_context(LocalKafka(home / "kafka"))
        make_topics(kafka.bootstrap)
        load = held.enter_context(Load(kafka.bootstrap, long_history(ALTERATIONS), PAUSE_S))
        yield Ground(home, kafka.bootstrap, load, held)


def asked(words: Sequence[str], place: Sequence[str], environ: Mapping[str, str] = {}) -> Row:
    """What a verb says of the tables in `place`; wrong when it does not end with 0."""
    began = time.monotonic()
    done = regent(*words, *place, limit_s=VERB_LIMIT_S, environ={**os.environ, **environ})
    told = (
        done.stdout if done.returncode == 0 else done.stderr or done.stdout
    ).strip().splitlines() or ["nothing"]
    line = told[0] if done.returncode == 0 else told[-1]
    result = f"{line[:TOLD_CHARS]} ({len(told)} lines, {time.monotonic() - began:.0f} s)"
    return Row(
        f"regent {' '.join(words)}",
        result if done.returncode == 0 else f"exit code {done.returncode}: {result}",
        done.returncode == 0,
    )


def proven(
    commands: int, place: Sequence[str], environ: Mapping[str, str], how: str = "--spark"
) -> Row:
    """The whole history folded again, through Spark unless `how` says other: all digests agree, and
    the outcome that is none is told.
    """
    began = time.monotonic()
    done = regent(
        "verify",
        "--spark",
        "--json",
        *place,
        limit_s=VERB_LIMIT_S,
        environ={**os.environ, **environ},
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return Row(
            "regent verify", f"exit code {done.returncode}: {done.stderr[-TOLD_CHARS:]}", ok=False
        )
    good = (
        told["verified_up_to"] == commands - 1
        and told["first_mismatch"] is None
        and told["problems"] == [NO_OUTCOME]
        and told["findings"] == []
        and told["spark"] == (how == "--spark")
    )
    result = (
        f"agrees up to command {told['verified_up_to']} of {commands - 1} "
        f"({time.monotonic() - began:.0f} s)"
    )
    wrong = [*told["problems"], *told["findings"]]
    return Row(f"regent verify {how}", result if good else f"{result}; {wrong}", good)


@contextmanager
def environment(more: Mapping[str, str]) -> Iterator[None]:
    """These variables hold in here, for libraries that look nowhere else."""
    before: dict[str, Any] = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
