"""What a slave of a set without controllers serves, while it acts and while it does not
(PROTOCOL 7.2).

Responsible for: one table by request code, and what a slave makes of a pull. Refuses to know: how a
request is served.

Who comes to a slave was sent there by a route: there is hardly a question here whether it acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.remoting.codes import RequestCode, ResponseCode

SLOW_ID, USUAL_ID = 1, 0
"""Of a group: which broker it reads from when it is far behind, and else."""


class How(Enum):
    """What becomes of a request at a slave."""

    SERVED = "as a master does"
    READ_ENABLED = "where slaves may be read from"
    ESCAPES = "served; what it has to store goes to another set's master"
    LOCAL_MASTER = "by a master in this process, if there is one"
    PUSHED = "handed on, and not stored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Served:
    """`code`, `remark`: of a refusal."""

    how: How
    code: int = 0
    remark: str = ""


_BUSY = "a slave, which is not to be read from"
_NO_WRITE = "a slave, which takes no messages"
_NO_MASTER = "no master available along with {address}"
_NO_TRANSACTION = "a slave, which ends no transactions"
_KEPT_BY_MASTER = "the set has no master now, and what is changed at a slave does not stay"

_SERVED = Served(How.SERVED)
_ESCAPES = Served(How.ESCAPES)
_NOT_CHANGED = Served(How.REFUSED, ResponseCode.SYSTEM_ERROR, _KEPT_BY_MASTER)

AT_A_SLAVE: dict[int, Served] = {
    RequestCode.PULL_MESSAGE: Served(How.READ_ENABLED, ResponseCode.SYSTEM_BUSY, _BUSY),
    RequestCode.LITE_PULL_MESSAGE: Served(How.READ_ENABLED, ResponseCode.SYSTEM_BUSY, _BUSY),
    RequestCode.POP_MESSAGE: _ESCAPES,
    RequestCode.ACK_MESSAGE: _ESCAPES,
    RequestCode.BATCH_ACK_MESSAGE: _ESCAPES,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _ESCAPES,
    RequestCode.SEND_MESSAGE: Served(How.REFUSED, ResponseCode.SERVICE_NOT_AVAILABLE, _NO_WRITE),
    RequestCode.SEND_MESSAGE_V2: Served(How.REFUSED, ResponseCode.SERVICE_NOT_AVAILABLE, _NO_WRITE),
    RequestCode.SEND_BATCH_MESSAGE: Served(
        How.REFUSED, ResponseCode.SERVICE_NOT_AVAILABLE, _NO_WRITE
    ),
    RequestCode.SEND_REPLY_MESSAGE: Served(How.PUSHED),
    RequestCode.SEND_REPLY_MESSAGE_V2: Served(How.PUSHED),
    RequestCode.END_TRANSACTION: Served(
        How.REFUSED, ResponseCode.SLAVE_NOT_AVAILABLE, _NO_TRANSACTION
    ),
    RequestCode.RECALL_MESSAGE: Served(How.REFUSED, ResponseCode.SLAVE_NOT_AVAILABLE, _NO_WRITE),
    RequestCode.CONSUMER_SEND_MSG_BACK: Served(
        How.LOCAL_MASTER, ResponseCode.SYSTEM_ERROR, _NO_MASTER
    ),
    RequestCode.LOCK_BATCH_MQ: _SERVED,
    RequestCode.UNLOCK_BATCH_MQ: _SERVED,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _SERVED,
    RequestCode.GET_MAX_OFFSET: _SERVED,
    RequestCode.GET_MIN_OFFSET: _SERVED,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _SERVED,
    RequestCode.UPDATE_CONSUMER_OFFSET: _SERVED,
    RequestCode.QUERY_CONSUMER_OFFSET: _SERVED,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _NOT_CHANGED,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _NOT_CHANGED,
    RequestCode.DELETE_TOPIC_IN_BROKER: _NOT_CHANGED,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _NOT_CHANGED,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _NOT_CHANGED,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _NOT_CHANGED,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Served(
        How.REFUSED, ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker"
    ),
}
"""RocketMQ lets topics and groups be changed at a slave, and loses the change when the master is
back; a refusal says so at once. Codes that are not here are served.
"""

FENCED: dict[int, Served] = {
    code: Served(How.REFUSED, ResponseCode.SERVICE_NOT_AVAILABLE, "taken for dead, on its way back")
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.RECALL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    )
}
"""At a master that was taken for dead: whoever has an old route is to ask for the new one, and no
place that a consumer commits here may be older than what it commits there.
"""


def at_a_slave(code: int, *, slave_read: bool, local_master: bool, address: str) -> Served:
    """What becomes of a request with this code. `address`: the slave's, for people."""
    row = AT_A_SLAVE.get(code, _SERVED)
    if row.how is How.READ_ENABLED:
        return _SERVED if slave_read else Served(How.REFUSED, row.code, row.remark)
    if row.how is How.LOCAL_MASTER:
        if local_master:
            return row
        return Served(How.REFUSED, row.code, row.remark.format(address=address))
    return row


@dataclass(frozen=True, slots=True)
class PullAnswer:
    """The code of a pull's answer, and which broker the consumer is to read from next."""

    code: int
    suggests: int


def slave_pull(
    code: int,
    *,
    own_id: int,
    min_id: int,
    far_behind: bool,
    slave_read: bool = True,
    checks_offsets: bool = False,
    slow_id: int = SLOW_ID,
    usual_id: int = USUAL_ID,
) -> PullAnswer:
    """What a broker makes of what it found. `min_id`: the smallest of its set that lives. A slave
    whose master lives sends those back to it who read near the end: what they do not find here may
    be there.
    """
    suggests = (slow_id if far_behind else usual_id) if slave_read else 0
    if own_id != 0 and min_id == 0 and not far_behind:
        suggests = 0
        if code != ResponseCode.SUCCESS:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
    if own_id != 0 and code == ResponseCode.PULL_OFFSET_MOVED and not checks_offsets:
        code = ResponseCode.PULL_RETRY_IMMEDIATELY
    return PullAnswer(int(code), suggests)
