"""What the active controller does of its own accord: elections that are due, and what follows from outcomes.

Responsible for: taking over and stepping down, the pushes and further elections that an applied command
asks for. Refuses to know: requests and their answers, and who wins (the fold).
"""

from __future__ import annotations

from collections.abc import Sequence

from events.outcomes import Outcome
from processors import effects as fx
from processors import settings_in_force
from processors.command_desk import CommandDesk
from processors.core_context import CoreContext
from processors.effects import Effect
from processors.elections import ElectionDesk
from processors.liveness import BrokerKey
from processors.read_desk import ReadDesk

SCAN_MS = 250
ARRIVAL_PROBE_MS = 2_000
"""So often the port of an imported master that has not arrived yet is asked whether it is still there."""


class LeadingDesk:
    """Silent on a standby: nothing here decides, it only appends what the fold then decides (design D6)."""

    def __init__(self, context: CoreContext, commands: CommandDesk, reads: ReadDesk) -> None:
        self._context = context
        self._commands = commands
        self._reads = reads
        self._elections = ElectionDesk(context.liveness, context.is_at_risk)
        self._scan_due_ms = 0
        self._arrivals_due_ms = 0

    def take_over(self) -> list[Effect]:
        """Begin to lead: masters without an open connection are probed, roles are pushed (design D8)."""
        context = self._context
        note = fx.Note("info", f"leading in term {context.state.term}")
        probes = self._elections.take_over(context.state, context.now_ms)
        told = self._reads.once_current(self._tell_everybody)
        return [note, *self._overruled(), *probes, *told]

    def _overruled(self) -> list[Effect]:
        """A setting in this controller's file counts only when the log begins; whoever edits it later shall know."""
        state = self._context.state
        others = [
            f"{name} is {settings_in_force.text(state, name)}, this controller's file says {value}"
            for name, value in sorted(self._context.config.settings.items())
            if settings_in_force.text(state, name) != value
        ]
        return [fx.Note("warning", f"the log's settings count: {'; '.join(others)}")] if others else []

    def _tell_everybody(self) -> list[Effect]:
        context = self._context
        if not context.is_active:
            return []
        return self._elections.tell_everybody(context.state, context.now_ms)

    def step_down(self) -> list[Effect]:
        """Another one leads now."""
        state = self._context.state
        return [fx.Note("warning", f"{state.leader_id} leads in term {state.term}; standing by")]

    def returned(self, key: BrokerKey) -> list[Effect]:
        """A replica that was away missed the pushes, and an election may have waited for it."""
        if not self._context.is_active:
            return []
        _, name, broker_id = key

        def tell() -> list[Effect]:
            return self._elections.tell_one(self._context.state, name, broker_id)

        # A leader that lags, or leads no more, would give a restarted Java master its old mastership (S6).
        return self._reads.once_current(tell) + self.elections([name])

    def after(self, outcome: Outcome, phases: dict[str, int]) -> list[Effect]:
        """What an applied command asks for: pushes, and elections it makes due. `phases` gets a stamp."""
        context = self._context
        effects = self._elections.applied(outcome, context.state, context.now_ms)
        if any(isinstance(effect, fx.NotifyRole) for effect in effects):
            phases["notified"] = context.wall_ms
        if outcome.broker_name is not None and outcome.changes:
            effects += self.elections([outcome.broker_name])
        return effects

    def scan(self, *, at_once: bool) -> list[Effect]:
        """
        Look at all sets, when it is time: the net below the pushes.

        RocketMQ's intervals bound how rarely that happens; the net is finer than their defaults anyway.
        """
        context = self._context
        if not at_once and context.now_ms < self._scan_due_ms:
            return []
        names = (settings_in_force.SCAN_BROKERS, settings_in_force.SCAN_MASTERS)
        wanted_ms = min(settings_in_force.number(context.state, name) for name in names)
        self._scan_due_ms = context.now_ms + min(SCAN_MS, wanted_ms)
        return self._arrivals() + self.elections(None)

    def _arrivals(self) -> list[Effect]:
        context = self._context
        if not context.is_active or context.now_ms < self._arrivals_due_ms:
            return []
        self._arrivals_due_ms = context.now_ms + ARRIVAL_PROBE_MS
        liveness = context.liveness
        awaited = [liveness.awaited(one, context.now_ms) for one in context.state.sets.values()]
        addresses = liveness.want_probes([address for address in awaited if address is not None])
        return [fx.Probe(address) for address in addresses]

    def elections(self, names: Sequence[str] | None) -> list[Effect]:
        """Append an election for each set in need; `names` None looks at all sets."""
        context = self._context
        if not context.is_active:
            return []
        effects: list[Effect] = []
        for call, phases in self._elections.calls(
            context.state, names, context.now_ms, context.wall_skew_ms
        ):
            effects += self._commands.election(call, phases)
        return effects
