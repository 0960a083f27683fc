"""What the active controller does of its own accord: elections that are due, and what follows from
outcomes.

Responsible for: taking over and stepping down, the pushes and further elections that an applied
command asks for. Refuses to know: requests and their answers, and who wins (the fold).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from brokers.remoting.command import RemotingCommand
from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller.commands import Commands
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.elections import Elections
from processors.controller.reads import Reads
from processors.fold.rules import SETTING_SCAN_BROKERS, SETTING_SCAN_MASTERS
from processors.fold.state import BrokerSet
from processors.liveness.pulses import BrokerKey, Heartbeat
from processors.settings import recorded

SCAN_MS = 250
LOOKS_AT_ONCE = 250
"""Sets that one tick looks at, or tells their roles: ten thousand would make the loop stand
still.
"""
TELL_AGAIN_MS = 250
"""Pause after a question was given up, before it is asked again."""
NAMED_MAX = 20
"""Brokers named of those that fall silent at once; the others are counted."""
CAUSE_WENT_BACK = "log_went_back"
ARRIVAL_PROBE_MS = 2_000
"""Pause between two questions whether the port of an imported master, which has not arrived yet, is
still there.
"""


class Leading:
    """Silent on a standby: nothing here decides, it only appends what the fold then decides (design
    D6).
    """

    def __init__(self, context: CoreContext, commands: Commands, reads: Reads) -> None:
        self._context = context
        self._commands = commands
        self._reads = reads
        self._elections = Elections(context.liveness, context.takings, context.is_at_risk)
        self._scan_due_ms = 0
        self._arrivals_due_ms = 0
        self._round: Iterator[str] | None = None
        """The sets that the round under way has still to look at."""
        self._soon: dict[str, None] = {}
        """Sets that something has happened to: they do not wait for the round."""
        self._sorted: list[str] = []
        self._untold: Iterator[str] = iter(())
        self._tell_due_ms: int | None = None
        """When the next push is due; None when there is none."""
        self._asked: dict[str, dict[str, None]] = {}
        """Address -> the sets whose masters' ports were asked there without ever having been
        heard.
        """

    def begin_leading(self) -> list[Effect]:
        """Begin to lead: masters without an open connection are probed, roles are pushed (design
        D8).
        """
        context = self._context
        note = fx.Note("info", f"leading in term {context.state.term}")
        context.leading_since_ms = context.now_ms
        self._asked.clear()
        self._soon.clear()
        self._round, self._scan_due_ms = None, context.now_ms
        self._untold, self._tell_due_ms = iter(self._names()), context.now_ms
        probes = self._probes(self._elections.begin_leading(context.state, context.now_ms))
        return [note, *self._overruled(), *probes, *self._tell_on()]

    def _names(self) -> Sequence[str]:
        """All sets, in an order that no hash decides. None is ever forgotten, so their number tells
        when one is new.
        """
        sets = self._context.state.sets
        if len(self._sorted) != len(sets):
            self._sorted = sorted(sets)
        return self._sorted

    def _probes(self, masters: Sequence[tuple[str, str]]) -> list[Effect]:
        """`masters`: (address, set) of those whose ports are to be asked."""
        for address, name in masters:
            self._asked.setdefault(address, {})[name] = None
        wanted = self._context.liveness.want_probes([address for address, _ in masters])
        return [fx.Probe(address) for address in wanted]

    def refused(self, address: str, gone: Sequence[BrokerKey]) -> list[Effect]:
        """Nobody listens there any more: look at the sets of the brokers that did."""
        return self.elections({name: None for _, name, _ in gone} | self._asked.pop(address, {}))

    def _overruled(self) -> list[Effect]:
        """A setting in this controller's file counts only when the log begins; an edit later gets a
        warning.
        """
        state = self._context.state
        others = [
            f"{name} is {recorded.text(state, name)}, this controller's file says {value}"
            for name, value in sorted(self._context.config.settings.items())
            if recorded.text(state, name) != value
        ]
        return (
            [fx.Note("warning", f"the log's settings count: {'; '.join(others)}")] if others else []
        )

    def _tell_some(self) -> list[Effect]:
        """Push the roles of some sets; the others follow in later ticks, each time proven current
        anew.
        """
        context = self._context
        if not context.is_active:
            return []
        names = list(islice(self._untold, LOOKS_AT_ONCE))
        self._tell_due_ms = context.now_ms if len(names) == LOOKS_AT_ONCE else None
        return self._elections.tell(context.state, names, context.now_ms)

    def _tell_on(self) -> list[Effect]:
        """Once it is proven current; a log that says nothing for a while after a takeover is asked
        again.
        """
        context = self._context
        if self._tell_due_ms is None or context.now_ms < self._tell_due_ms:
            return []
        self._tell_due_ms = context.now_ms + context.config.request_deadline_ms + TELL_AGAIN_MS
        return self._reads.once_current(self._tell_some)

    def step_down(self) -> list[Effect]:
        """Another one leads now."""
        state = self._context.state
        self._context.takings.clear()
        return [fx.Note("warning", f"{state.leader_id} leads in term {state.term}; standing by")]

    def returned(self, key: BrokerKey) -> list[Effect]:
        """A replica that was away missed the pushes, and an election may have waited for it."""
        if not self._context.is_active:
            return []
        _, name, broker_id = key

        def tell() -> list[Effect]:
            return self._elections.tell_one(
                self._context.state, name, broker_id, self._context.now_ms
            )

        # A leader that lags, or leads no more, would give a restarted Java master its old
        # mastership (S6).
        return self._reads.once_current(tell) + self.elections([name])

    def went_back(self, broker_set: BrokerSet, beat: Heartbeat) -> list[Effect]:
        """A start of a Java broker that lost data, in its name: it leaves the set, and vetoes
        nobody.
        """
        replica = broker_set.replica(beat.key[2])
        if not self._context.is_active or replica is None:
            return []
        return self._commands.unclean_start(
            broker_set, replica, (beat.epoch, beat.max_offset), CAUSE_WENT_BACK
        )

    def after(self, outcome: Outcome, phases: dict[str, int]) -> list[Effect]:
        """What an applied command asks for: pushes, and elections it makes due. `phases` gets a
        stamp.
        """
        context = self._context
        effects = self._elections.after_apply(outcome, context.state, context.now_ms)
        if any(isinstance(effect, fx.NotifyRole) for effect in effects):
            phases["notified"] = context.wall_ms
        if outcome.broker_name is not None and outcome.changes:
            effects += self.elections([outcome.broker_name])
        return effects

    def answered(self, token: int, answer: RemotingCommand | None) -> list[Effect]:
        """A broker's answer to what it was asked; None: there was none."""
        context = self._context
        self._elections.answered(token, answer, context.now_ms)
        return self._elections.questions(context.state, context.now_ms) if context.is_active else []

    def scan(self, silent: Sequence[BrokerKey]) -> list[Effect]:
        """Look at the sets of replicas that just fell silent, and, a part in each tick, at all: the
        net below the pushes.

        RocketMQ's intervals bound how rarely a round begins; the net is finer than their defaults
        anyway.
        """
        context = self._context
        effects = _silence_notes(silent)
        if not context.is_active:
            return effects
        effects += self._tell_on() + self._elections.questions(context.state, context.now_ms)
        if self._round is None and context.now_ms >= self._scan_due_ms:
            names = (SETTING_SCAN_BROKERS, SETTING_SCAN_MASTERS)
            wanted_ms = min(recorded.number(context.state, name) for name in names)
            self._scan_due_ms = context.now_ms + min(SCAN_MS, wanted_ms)
            self._round = iter(self._names())
            effects += self._arrivals()
        self._soon.update((name, None) for _, name, _ in silent)
        return effects + self.elections(self._next_looks())

    def _next_looks(self) -> Collection[str]:
        names = dict.fromkeys(islice(self._soon, LOOKS_AT_ONCE))
        for name in names:
            del self._soon[name]
        if self._round is not None:
            others = list(islice(self._round, LOOKS_AT_ONCE))
            if len(others) < LOOKS_AT_ONCE:
                self._round = None
            names.update(dict.fromkeys(others))
        return names

    def _arrivals(self) -> list[Effect]:
        context = self._context
        if context.now_ms < self._arrivals_due_ms:
            return []
        self._arrivals_due_ms = context.now_ms + ARRIVAL_PROBE_MS
        awaited = [
            (context.liveness.awaited(one, context.now_ms), one.broker_name)
            for one in map(context.state.sets.__getitem__, self._names())
            if one.imported
        ]
        return self._probes([(address, name) for address, name in awaited if address is not None])

    def elections(self, names: Iterable[str]) -> list[Effect]:
        """Append an election for each of these sets that is in need."""
        context = self._context
        if not context.is_active:
            return []
        effects: list[Effect] = []
        for call, phases in self._elections.calls(
            context.state, names, context.now_ms, context.wall_skew_ms
        ):
            effects += self._commands.election(call, phases)
        return effects


def _silence_notes(silent: Sequence[BrokerKey]) -> list[Effect]:
    told = [f"{name}: broker {broker_id} fell silent" for _, name, broker_id in silent[:NAMED_MAX]]
    if len(silent) > NAMED_MAX:
        told.append(f"{len(silent) - NAMED_MAX} more brokers fell silent")
    return [fx.Note("warning", text) for text in told]
