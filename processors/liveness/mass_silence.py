"""When half the world falls silent at once, the ear is to blame rather than the world (design D8).

Responsible for: holding elections by silence back for a bounded time.
Refuses to know: elections for any other cause; those go on.
"""

from __future__ import annotations

from collections.abc import Iterable

from processors.fold.rules import SETTING_MASS_SILENCE_HOLD_MS
from processors.fold.state import SETTING_DEFAULTS, BrokerSet
from processors.liveness.pulses import REASON_EXPIRED, REASON_NEVER_SEEN
from processors.liveness.replicas import Liveness

MASS_SILENCE_BROKERS = 10
MASS_SILENCE_HOLD_MS = int(SETTING_DEFAULTS[SETTING_MASS_SILENCE_HOLD_MS])
"""Elections by silence wait this long when more than half of more than ten brokers fell silent."""
COUNT_AGAIN_MS = 200
"""A verdict "mass silence" is kept this long: counting walks all replicas, and every returning
broker asks.
"""
CALM_MS = 1_000
"""A verdict "no mass silence" is kept this long unless another replica falls silent."""


class MassSilence:
    """One leader's view; replicas that were never heard are silent too: a leader that just took
    over may be deaf.
    """

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._judged: tuple[int, bool] | None = None
        self._silences = 0

    def forget(self) -> None:
        """Another leadership begins."""
        self._since_ms = self._judged = None

    def holds(
        self, sets: Iterable[BrokerSet], liveness: Liveness, now_ms: int, hold_ms: int
    ) -> bool:
        """True while elections by silence must wait. `sets` are all there are; they are counted
        once per moment.
        """
        if self._judged is None or now_ms - self._judged[0] >= self._valid_ms(
            liveness, self._judged[1]
        ):
            self._judged, self._silences = (
                (now_ms, self._is_mass(sets, liveness, now_ms)),
                liveness.silences,
            )
        if not self._judged[1]:
            self._since_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms < hold_ms

    def _valid_ms(self, liveness: Liveness, mass: bool) -> int:
        if mass:
            return COUNT_AGAIN_MS
        return CALM_MS if liveness.silences == self._silences else 1

    @staticmethod
    def _is_mass(sets: Iterable[BrokerSet], liveness: Liveness, now_ms: int) -> bool:
        known = silent = 0
        for broker_set in sets:
            for replica in broker_set.replicas:
                if not replica.is_registered:
                    continue
                known += 1
                pulse = liveness.pulse(
                    (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
                )
                if pulse is not None:
                    silent += pulse.reason(now_ms) == REASON_EXPIRED
                else:
                    silent += liveness.reason_of(broker_set, replica, now_ms) == REASON_NEVER_SEEN
        return known > MASS_SILENCE_BROKERS and silent * 2 > known
