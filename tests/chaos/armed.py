"""The brokers' folders of a cluster whose brokers were started with kill points: arming them,
keeping them off, taking their power.

Refuses to know: what happens inside a broker (kill_points.py), which line hits whom.
"""

from __future__ import annotations

import json
import os
import random
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.processes import children
from tests.chaos import damage
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.kill_points import ARM, BOOT_ID, FIRED, GATE, JOURNAL
from tests.chaos.write_journal import PowerLoss, lose_power
from tests.support.local_cluster import ROOT, wait_until

CONTROL = "control"
STARTER = Path(__file__).with_name("starter")
FIRES_WITHIN_S = 20.0
DIES_WITHIN_S = 10.0
UNCLEAN = "the start is unclean"


def starter(home: Path) -> list[str]:
    """Words before the command of a broker; its stage lives in `home`."""
    return ["env", f"PYTHONPATH={STARTER}{os.pathsep}{ROOT}", f"REGENT_CHAOS={home / CONTROL}"]


class Armed:
    """One run's hold on the brokers of a stage. `chance` decides what the line leaves open; its
    seed is in the note.
    """

    def __init__(self, stage: BrokerStage) -> None:
        self.stage = stage
        self.seed = random.SystemRandom().randrange(1_000_000)
        self.chance = random.Random(self.seed)

    def folder(self, name: str) -> Path:
        found = self.stage.home / CONTROL / name
        if not found.is_dir():
            raise NotAsItShouldBe(f"{name} was started without kill points")
        return found

    def store(self, name: str) -> Path:
        return Path(self.stage.cluster.process(name)["store_dir"])

    def pid(self, name: str) -> int:
        return int(self.stage.cluster.process(name)["pid"])

    # -- points ------------------------------------------------------------------------------------

    def die_at(self, point: str, name: str, *others: str, passes: int) -> dict[str, int]:
        """`name` dies at the Nth time it comes by a point from now on, and `others` with it. All
        are dead on return.
        """
        folder, pids = self.folder(name), {one: self.pid(one) for one in (name, *others)}
        (folder / FIRED).unlink(missing_ok=True)
        order = {"point": point, "passes": passes, "also": [pids[one] for one in others]}
        part = folder / f"{ARM}.part"
        part.write_text(json.dumps(order))
        part.replace(folder / ARM)
        try:
            wait_until((folder / FIRED).exists, f"{name} comes by {point}", FIRES_WITHIN_S)
        finally:
            (folder / ARM).unlink(missing_ok=True)
        self.wait_dead(pids)
        fired = json.loads((folder / FIRED).read_text())
        if fired["point"] != point:
            raise NotAsItShouldBe(f"{name} died at {fired['point']} instead of {point}")
        return pids

    def wait_dead(self, pids: dict[str, int]) -> None:
        wait_until(
            lambda: not any(map(children.is_alive, pids.values())),
            f"{', '.join(pids)} are dead",
            DIES_WITHIN_S,
        )

    # -- off and on --------------------------------------------------------------------------------

    @contextmanager
    def kept_off(self, *names: str, wait: bool = True) -> Iterator[None]:
        """Whoever of them dies meanwhile begins again only at the end; then all run, unless nobody
        waits for that.
        """
        pids = {name: self.pid(name) for name in names}
        for name in names:
            (self.folder(name) / GATE).touch()
        try:
            yield
        finally:
            for name in names:
                self.open_gate(name)
        if wait:
            self.stage.wait_restarted(pids)

    def open_gate(self, name: str) -> None:
        """It may begin now."""
        (self.folder(name) / GATE).unlink(missing_ok=True)

    @contextmanager
    def killed(self, *names: str) -> Iterator[None]:
        """`kill -9` of all of them; they stay away until the end."""
        with self.kept_off(*names):
            pids = {name: self.pid(name) for name in names}
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            self.wait_dead(pids)
            yield

    def power_lost(self, *names: str, kept: float) -> list[PowerLoss]:
        """Their machines boot anew, and what was not durable is there with that chance. They must
        be dead.
        """
        return [self._power_lost(name, kept) for name in names]

    def _power_lost(self, name: str, kept: float) -> PowerLoss:
        (self.folder(name) / BOOT_ID).write_text(str(uuid.UUID(int=self.chance.getrandbits(128))))
        return lose_power(self.store(name), self.folder(name) / JOURNAL, self.chance, kept)

    def empty(self, name: str) -> None:
        """Nothing is left in its data folder, and nothing of what was there can be lost once
        more.
        """
        damage.empty(self.store(name))
        (self.folder(name) / JOURNAL).write_bytes(b"")

    def newest_of(self, name: str) -> tuple[int, int]:
        """Of the log's last whole message, which is on its disk for now: when it was stored (ms),
        and its number.
        """
        found = list(damage.messages(self.store(name)))
        return (damage.stored_ms(found[-1]), len(found)) if found else (0, 0)

    # -- what they said ----------------------------------------------------------------------------

    def log_now(self, *names: str) -> dict[str, int]:
        """How long their logs are, for `said`."""
        return {name: len(self.stage.log_of(name)) for name in names}

    def said(self, before: dict[str, int], name: str) -> str:
        """What its log says since `log_now`."""
        return self.stage.log_of(name)[before[name] :]

    def must_say(self, before: dict[str, int], name: str, text: str, limit_s: float = 30.0) -> None:
        wait_until(lambda: text in self.said(before, name), f"{name} says {text!r}", limit_s)
