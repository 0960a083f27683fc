"""The controllers of a generated history: they append commands, fold them and publish the outcomes.

Responsible for envelopes, terms, the order of the log and the clock that all share. Decides
nothing: the outcome is what the real `Folder` says. Refuses to know why a command is asked for
(`generated_set`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from zlib import crc32

from msgspec.structs import replace

from events.broker_events import BrokerEvent
from events.codec import COMMAND_FINGERPRINTS, encode
from events.commands import ClaimLeadership, ClusterFormed, Command
from events.envelope import Envelope
from events.outcomes import Outcome
from processors.fold.folder import Folder
from processors.fold.rules import RULES_VERSION
from processors.fold.state import BrokerSet
from processors.liveness.fact_headers import FactHeaders
from processors.liveness.heartbeat_gaps import HeartbeatGaps
from processors.liveness.pulses import Heartbeat, Pulse

CONTROLLERS = ("n0", "n1", "n2")
RELEASE = "0.1.0"
EVENT_PARTITIONS = 4
NETWORK = "10.0"
PUBLISH_MS, APPEND_MS = 4, 2
REPUBLISHED = 3
"""So many outcomes a new leader publishes again: readers drop them by offset."""


class LogIsFull(Exception):
    """As many commands as were asked for stand in the log."""


class Leaders:
    """What controllers have written so far; times are ms since 1970-01-01 UTC."""

    def __init__(
        self,
        cluster_id: str,
        chance: Random,
        began_ms: int,
        commands_max: int,
        network: str = NETWORK,
    ) -> None:
        self.cluster_id = cluster_id
        self.network = network
        """What the addresses of brokers begin with."""
        self.now_ms = began_ms
        self.commands: list[bytes] = []
        self.commands_ms: list[int] = []
        self.outcomes: list[bytes] = []
        self.outcomes_ms: list[int] = []
        self.events: tuple[list[bytes], ...] = tuple([] for _ in range(EVENT_PARTITIONS))
        self.events_ms: tuple[list[int], ...] = tuple([] for _ in range(EVENT_PARTITIONS))
        self._chance, self._commands_max = chance, commands_max
        self._folder = Folder()
        self._gaps = {one: HeartbeatGaps(FactHeaders(one)) for one in CONTROLLERS}
        self._newest: list[Outcome] = []
        self._do_first(
            ClusterFormed(self._envelope("formed"), RULES_VERSION, {}, COMMAND_FINGERPRINTS)
        )
        self._claim(CONTROLLERS[0], "start")

    @property
    def folder(self) -> Folder:
        """The fold up to the newest command."""
        return self._folder

    def set(self, name: str) -> BrokerSet:
        """A broker set as it stands now."""
        return self._folder.state.sets.get(name, BrokerSet("regent", name))

    def do(
        self,
        cause: str,
        command: Callable[[Envelope], Command],
        asked_by: str | None = None,
        stamps: Mapping[str, int] | None = None,
    ) -> Outcome:
        """The leader appends a command; what became of it. Raises `LogIsFull`."""
        return self._append(encode(command(self._envelope(cause, asked_by))), stamps or {})

    def again(self) -> Outcome:
        """The newest command comes once more: its answer was lost on the way."""
        return self._append(self.commands[-1], {})

    def tell(self, event: BrokerEvent) -> None:
        """A broker reports a fact; facts of one set keep their order."""
        partition = crc32(event.header.broker_name.encode()) % EVENT_PARTITIONS
        self.events[partition].append(encode(event))
        self.events_ms[partition].append(
            max(event.header.at_ms + APPEND_MS, *self.events_ms[partition][-1:], 0)
        )

    def tell_silence(self, before: Pulse | None, beat: Heartbeat) -> None:
        """The leader has heard a replica that was silent."""
        fact = self._gaps[self._folder.state.leader_id or CONTROLLERS[0]].ended(
            before, beat, self.now_ms, self.now_ms
        )
        if fact is not None:
            self.tell(fact)

    def live(self, pause_ms: int) -> Iterator[int]:
        """Leadership goes round; each time the former leader appends one command more, which comes
        too late.
        """
        while True:
            yield int(self._chance.expovariate(1 / pause_ms))
            state = self._folder.state
            stale = self._envelope("leader_silent")
            following = CONTROLLERS[
                (CONTROLLERS.index(state.leader_id or CONTROLLERS[0]) + 1) % len(CONTROLLERS)
            ]
            self._claim(following, "leader_silent")
            for outcome in list(self._newest[-REPUBLISHED:]):
                self._publish(outcome, {})
            yield self._chance.randrange(5, 900)
            late = ClaimLeadership(stale, state.term, stale.issuer, f"{stale.issuer}:9878", RELEASE)
            self._append(encode(late), {})

    def _claim(self, controller: str, cause: str) -> None:
        envelope = self._envelope(cause, issuer=controller)
        claim = ClaimLeadership(
            envelope, self._folder.state.term, controller, f"{controller}:9878", RELEASE
        )
        assert self._append(encode(claim), {}).accepted

    def _do_first(self, command: Command) -> None:
        assert self._append(encode(command), {}).accepted

    def _envelope(self, cause: str, asked_by: str | None = None, issuer: str = "") -> Envelope:
        folder = self._folder
        return Envelope(
            command_id=self._chance.getrandbits(128).to_bytes(16, "big"),
            cluster_id=self.cluster_id,
            term=folder.state.term,
            issuer=issuer or folder.state.leader_id or CONTROLLERS[0],
            issued_at_ms=self.now_ms,
            cause=cause,
            requested_by=asked_by,
            applied_offset=folder.offset,
            applied_digest=folder.digest if folder.offset >= 0 else b"",
        )

    def _append(self, data: bytes, stamps: Mapping[str, int]) -> Outcome:
        if len(self.commands) >= self._commands_max:
            raise LogIsFull
        offset = len(self.commands)
        self.commands.append(data)
        self.commands_ms.append(self.now_ms + APPEND_MS)
        outcome = self._folder.apply(offset, data).outcome
        self._newest = [*self._newest[-REPUBLISHED:], outcome]
        steps = {
            "received": self.now_ms,
            "appended": self.now_ms + APPEND_MS,
            "applied": self.now_ms + APPEND_MS + 1,
        }
        self._publish(outcome, {**stamps, **steps})
        return outcome

    def _publish(self, outcome: Outcome, phases: Mapping[str, int]) -> None:
        at_ms = self.now_ms + PUBLISH_MS
        publisher = self._folder.state.leader_id or CONTROLLERS[0]
        self.outcomes.append(
            encode(
                replace(outcome, publisher=publisher, published_at_ms=at_ms, phases=dict(phases))
            )
        )
        self.outcomes_ms.append(at_ms + APPEND_MS)
