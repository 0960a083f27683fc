"""What a controller counts about itself (RULES 13), without a clock and without a format.

Responsible for: counters and histograms by their labels, under the names and with the borders of
RocketMQ's own controller, and those that only Regent has. Refuses to know: who reads them and how
they are written.

Java counts a request as a success when a response was produced, whatever its code; so is it here.
`dledger_op` is the append to the replicated log, which is Kafka here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from brokers.remoting.codes import RequestCode, ResponseCode
from events.commands import ElectMaster
from processors.fold.folder import Applied
from processors.wire.operator_requests import CAUSE_BROKER, CAUSE_OPERATOR

_STEPS = (1, 3, 5, 10, 30, 50, 100, 300, 500)
LATENCY_BORDERS_US = (
    *_STEPS,
    *(1_000 * step for step in _STEPS),
    1_000_000,
    3_000_000,
    5_000_000,
    10_000_000,
)
SUCCESS, FAILED, TIMEOUT = "success", "failed", "timeout"
_ELECTED, _KEPT, _NOBODY = "new_master_elected", "keep_current_master", "no_master_elected"
ELECTION_RESULTS: Mapping[int, str] = {
    ResponseCode.SUCCESS: _ELECTED,
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: _KEPT,
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE: _NOBODY,
    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED: _NOBODY,
}
"""Other answers to an election are not counted."""
ELECTION_ROWS_MAX = 50_000
"""A request names its cluster as it likes; rows beyond these are not shown."""
_JAVA_TYPES = {
    code: code.name if code.name.startswith("CONTROLLER_") else f"CONTROLLER_{code.name}"
    for code in (
        RequestCode.BROKER_HEARTBEAT,
        *(code for code in RequestCode if 1001 <= code <= 1006 or 1011 <= code <= 1013),
    )
} | {
    RequestCode.UPDATE_CONTROLLER_CONFIG: "CONTROLLER_UPDATE_CONTROLLER_CONFIG",
    RequestCode.GET_CONTROLLER_CONFIG: "CONTROLLER_GET_CONTROLLER_CONFIG",
}
"""Java's name of each request type that its controller serves."""


class Histogram:
    """How many values lay at or below each border; the last place is for what lies above all."""

    def __init__(self, borders: tuple[int, ...] = LATENCY_BORDERS_US) -> None:
        self.borders = borders
        self.counts = [0] * (len(borders) + 1)
        self.sum = 0

    def observe(self, value: int) -> None:
        self.counts[bisect_left(self.borders, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """(border as text, values at or below it), `+Inf` last."""
        total, rows = 0, []
        for border, count in zip((*map(float, self.borders), None), self.counts, strict=True):
            total += count
            rows.append(("+Inf" if border is None else str(border), total))
        return rows


def type_of(code: int) -> str | None:
    """The label of a request: Java's, or ours for requests of ours. None: not served, so not
    counted.
    """
    java = _JAVA_TYPES.get(code)  # type: ignore[call-overload]
    if java is not None:
        return str(java)
    try:
        name = RequestCode(code).name
    except ValueError:
        return None
    return name if name.startswith("REGENT_") else None


class Metrics:
    """The counts of one process since its start. Belongs to one thread."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        """(type, status) -> requests."""
        self.request_us: dict[str, Histogram] = {}
        self.appends: Counter[str] = Counter()
        self.append_us = Histogram()
        self.elections: Counter[tuple[str, str, str]] = Counter()
        """(cluster, broker set, result) -> elections."""
        self.applied: Counter[str] = Counter()
        """Command kind -> records applied since the start, whichever controller was active."""
        self.refused: Counter[tuple[str, int]] = Counter()
        """(refusal, response code) -> records refused since the start."""
        self.repeated_refusals = 0
        """Requests answered with a refusal that was recorded already."""
        self.notices_undelivered = 0
        """Role notices whose broker could not be reached; it polls."""
        self.notices_deferred = 0
        """Role notices that waited because too many connections were being made."""
        self.notices_dropped = 0
        """Role notices for which there was no room even to wait."""
        self.strange_peer_words = 0
        """Heartbeats in the name of controllers that are not configured here, or with offsets that
        cannot be.
        """
        self.strange_heartbeats = 0
        """Heartbeats in the name of a registered replica that are not its own."""
        self.strange_requests = 0
        """Requests of replicas (1001, 1002, 1003) refused because their sender does not know the
        check code.
        """
        self.unrecorded_refusals = 0
        """Requests about unknown sets, refused by the rules without a record: too many were
        recorded.
        """
        self.rate_limited = 0
        """Requests answered with 2 because too many of their kind came, from their set or at
        all.
        """
        self.fold_ns = 0

    def request(self, request_type: str, status: str, micros: int | None) -> None:
        """A request has come to its end; what ended in an exception has no latency."""
        self.requests[request_type, status] += 1
        if micros is not None and status != FAILED:
            if request_type not in self.request_us:
                self.request_us[request_type] = Histogram()
            self.request_us[request_type].observe(micros)

    def append(self, status: str, micros: int) -> None:
        """A command was handed to the log; only what is known to be in it has a latency."""
        self.appends[status] += 1
        if status == SUCCESS:
            self.append_us.observe(micros)

    def record(self, applied: Applied, active: bool) -> None:
        """A record of the log was applied. Elections are counted by the controller that leads."""
        outcome = applied.outcome
        self.applied[outcome.kind] += 1
        if outcome.refusal is not None:
            self.refused[outcome.refusal, outcome.code] += 1
        if not active or not isinstance(applied.record, ElectMaster):
            return
        result = ELECTION_RESULTS.get(outcome.code)
        if result is not None:
            asked = applied.record.envelope.cause in (CAUSE_BROKER, CAUSE_OPERATOR)
            cluster = applied.record.cluster_name if asked else ""
            key = (cluster, applied.record.broker_name, result)
            if key in self.elections or len(self.elections) < ELECTION_ROWS_MAX:
                self.elections[key] += 1


class RequestMeter:
    """Times requests between their arrival and their answer, whichever way that takes. Times are
    microseconds.
    """

    def __init__(self, metrics: Metrics | None = None) -> None:
        self.metrics = metrics or Metrics()
        self._open: dict[int, dict[int, tuple[str, int]]] = {}

    def arrived(self, conn_id: int, opaque: int, code: int, now_us: int) -> None:
        request_type = type_of(code)
        if request_type is not None:
            self._open.setdefault(conn_id, {})[opaque] = (request_type, now_us)

    def answered(self, conn_id: int, opaque: int, status: str, now_us: int) -> None:
        """Also for a one-way request that was taken: it has no other answer."""
        found = self._open.get(conn_id, {}).pop(opaque, None)
        if found is not None:
            self.metrics.request(found[0], status, now_us - found[1])

    def closed(self, conn_id: int) -> None:
        """The asker is gone: no response will be produced."""
        for request_type, _ in self._open.pop(conn_id, {}).values():
            self.metrics.request(request_type, FAILED, None)
