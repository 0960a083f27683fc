"""Whether who speaks for a replica is the one that got its id (design S9, S15).

A replica of ours tells the check code of its 1013 with everything it says about itself. A wrong
code is nobody's. A missing one is normal: RocketMQ tells none, earlier releases told none, and an
imported set came without codes. So it counts against the sender only where that replica has told
its code here before.
Responsible for: that memory, the doubt in one sentence, and how often a doubt is logged.
Refuses to know: what the packet wants, and whether the rules would grant it.

The memory is soft: it begins anew with this process, and the replica's next heartbeat fills it
again. Until that has had time to come, who asks without a code from another host than the replica
registered from is told to ask again.
"""

from __future__ import annotations

import hmac

from brokers.remoting.addresses import host_of, is_number
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR, Fields
from processors.controller import effects as fx
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.waiting import Waiter
from processors.fold.state import BrokerSet, Replica
from processors.liveness.rate_limit import RateLimit

CHECK_CODE = "regentCheckCode"
TOLD_MAX = 50_000
TOLD_FOR_MS = 3_600_000
"""A replica that was silent for this long may come back without its code."""
LEARNS_FOR_MS = 5_000
"""From the first question on; brokers send a heartbeat each second."""
NOTES_PER_SECOND, NOTES_BURST = 1, 10
_SPEAKER = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: "masterBrokerId",
    RequestCode.CONTROLLER_ELECT_MASTER: "brokerId",
    RequestCode.CONTROLLER_REGISTER_BROKER: "brokerId",
}
"""Requests that a replica makes for itself, and the field with its id."""


class CheckCodes:
    """Asked before anything that is said in a replica's name counts."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._told: dict[tuple[str, int], tuple[str, int]] = {}
        """(set, broker id) -> (the code it told, when it last did), the one longest silent
        first.
        """
        self._rates = RateLimit()
        self._began_ms: int | None = None

    def refused(self, waiter: Waiter) -> list[Effect] | None:
        """The answer to a request that does not come from the replica it names; None when nothing
        speaks against it.

        It has code 1, *unknown* (RULES 1): an earlier attempt under the same id may stand
        in the log. Raises BadRequest.
        """
        request = waiter.request
        field = _SPEAKER.get(request.code)  # type: ignore[call-overload]
        fields = Fields(request.ext)
        # An operator names whom he wants, not who he is.
        if field is None or fields.flag("designateElect"):
            return None
        name, broker_id = request.ext.get("brokerName", ""), fields.number(field, -1)
        host = host_of(request.ext.get(FORWARDED_FOR, waiter.peer))
        doubt = self.doubt(name, broker_id, request, host) or self._too_early(
            name, broker_id, request, host
        )
        if doubt is None:
            return None
        self._context.metrics.strange_requests += 1
        remark = f"{name}: who asks as broker {broker_id} {doubt}"
        notes: list[Effect] = []
        if self._rates.take(
            name, self._context.now_ms, rate_per_s=NOTES_PER_SECOND, burst=NOTES_BURST
        ):
            notes.append(fx.Note("warning", f"{request.code} from {waiter.peer} refused: {remark}"))
        return notes + waiter.answer(request.reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def doubt(self, name: str, broker_id: int, request: RemotingCommand, host: str) -> str | None:
        """What speaks against that `request`, which came from `host`, is of that replica; None:
        nothing does.
        """
        if self._began_ms is None:
            self._began_ms = self._context.now_ms
        broker_set = self._context.state.live_set(name)
        replica = None if broker_set is None else broker_set.replica(broker_id)
        if broker_set is None or replica is None or not replica.register_check_code:
            return None
        key, told = (name, broker_id), request.ext.get(CHECK_CODE)
        if told:
            if not hmac.compare_digest(told.encode(), replica.register_check_code.encode()):
                return "tells another check code than the one that the id was given for"
            self._remember(key, told)
            return None
        code, since_ms = self._told.get(key, ("", 0))
        if code != replica.register_check_code or self._context.now_ms >= since_ms + TOLD_FOR_MS:
            return None
        if self._took_its_folder(broker_set, replica, host):
            del self._told[key]
            return None
        return "tells no check code, and that broker has told its own"

    def _too_early(
        self, name: str, broker_id: int, request: RemotingCommand, host: str
    ) -> str | None:
        """What speaks against a request without a code that comes before the replica could tell its
        own; it may be right later.
        """
        broker_set = self._context.state.live_set(name)
        replica = None if broker_set is None else broker_set.replica(broker_id)
        if (
            replica is None
            or not (replica.register_check_code and replica.is_registered)
            or request.ext.get(CHECK_CODE)
        ):
            return None
        home = host_of(replica.address)
        is_late = (
            self._began_ms is not None and self._context.now_ms >= self._began_ms + LEARNS_FOR_MS
        )
        # which numbers a name stands for is not known here
        if is_late or host in ("", home) or not is_number(home):
            return None
        return (
            "tells no check code, comes from another host, and this controller has only begun to "
            "listen"
        )

    def _took_its_folder(self, broker_set: BrokerSet, replica: Replica, host: str) -> bool:
        """True when nobody is heard under that id and this comes from its own host: a Java broker
        that goes on there tells none.
        """
        pulse = self._context.liveness.pulse(
            (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
        )
        if pulse is not None and pulse.is_alive(self._context.now_ms):
            return False
        return host != "" and host in (
            host_of(replica.address),
            "" if pulse is None else pulse.host,
        )

    def _remember(self, key: tuple[str, int], code: str) -> None:
        self._told.pop(key, None)
        self._told[key] = code, self._context.now_ms
        if len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
