"""RULES 1 and 2: who serves which request, and what each response code stands for."""

import pytest

from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from tests.conformance.rows import Row, Shown, Table
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

NAMES = {"clusterName": CLUSTER, "brokerName": SET}
FULL = NAMES | {
    "brokerId": "1",
    "brokerAddr": "b1:10911",
    "brokerAddress": "b1:10911",
    "appliedBrokerId": "1",
    "registerCheckCode": "b1:10911;1",
    "masterBrokerId": "1",
    "masterEpoch": "1",
}
BODIES = {1001: b'{"syncStateSet":[1],"syncStateSetEpoch":1}', 1006: b'["a"]'}
MINE, LEADERS, NOBODYS = "answers itself", "is for the leader", 3


def standby() -> Rig:
    log = Log()
    Rig("c1", log).lead()
    rig = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    rig.catch_up()
    return rig


def where(code: int) -> object:
    """What a controller that does not lead makes of a request."""
    rig = standby()
    answer = rig.request(code, FULL, BODIES.get(code, b""))
    if rig.take(fx.ForwardToLeader):
        return LEADERS
    assert answer is not None
    return NOBODYS if answer.code == 3 else MINE


def without_leader(code: int) -> tuple[int, str | None, dict[str, str], bytes]:
    """The answer of a controller that knows no leader."""
    rig = Rig("c2", Log(), {"c1": "c1:9878"}, seed=2)
    rig.auto = False
    rig.request(code, FULL, BODIES.get(code, b""))
    rig.pass_time(1_500)
    (reply,) = rig.take(fx.Reply)
    return reply.response.code, reply.response.remark, reply.response.ext, reply.response.body


REQUESTS = Table("2.1")
for each in (904, 1005, 1010):
    REQUESTS.row(f"{each}-every-node", shipped=MINE)(lambda each=each: where(each))
for each in (1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013):
    REQUESTS.row(
        f"{each}-leader-only", shipped=2007, ours=LEADERS, because=("D5: a standby forwards")
    )(lambda each=each: where(each))
    REQUESTS.row(
        f"{each}-nobody-leads", shipped=(2007, "The controller is not in leader state", {}, b"")
    )(lambda each=each: without_leader(each))
REQUESTS.row(
    "1009-every-node", shipped=MINE, ours=LEADERS, because=("D3: a setting is recorded for all")
)(lambda: where(1009))
for each in (1007, 1008, 1014, 1015, 1016, 1017, 1018, 907, 50_000, 9_999, -1):
    REQUESTS.row(f"{each}-not-served", shipped=NOBODYS)(lambda each=each: where(each))


def refused(
    rig: Rig, code: int, change: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, bool]:
    """The code, and whether people are told why."""
    answer = rig.request(code, FULL | (change or {}), body)
    assert answer is not None
    return answer.code, bool(answer.remark)


def altered(members: str, set_epoch: int, **change: str) -> tuple[int, bool]:
    rig = Rig().lead().three()
    for _ in range(40):  # broker 3 falls silent
        rig.tick(100)
        rig.heartbeat(1)
        rig.heartbeat(2)
    return refused(
        rig,
        1001,
        change,
        (b'{"syncStateSet":[%s],"syncStateSetEpoch":%d}') % (members.encode(), set_epoch),
    )


def dead_master(*arguments: str) -> Rig:
    rig = Rig().lead()
    rig.join(1)
    rig.elect(1)
    rig.join(2)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    return rig


RESPONSES = Table("2.2")
RESPONSES.row("0", shipped=(0, False))(lambda: refused(Rig().lead().three(), 1004))
RESPONSES.row("1-exception", shipped=(1, True))(lambda: refused(Rig().lead(), 1006))
RESPONSES.row("2000-fenced-master-epoch", shipped=(2000, True))(
    lambda: altered("1,2", 2, masterEpoch="7")
)
RESPONSES.row("2001-fenced-set-epoch", shipped=(2001, True))(lambda: altered("1,2", 1))
RESPONSES.row("2002-invalid-master", shipped=(2002, True))(
    lambda: altered("1,2", 2, masterBrokerId="2")
)
RESPONSES.row("2003-invalid-replicas", shipped=(2003, True))(lambda: altered("1,2,9", 2))
RESPONSES.row("2004-nothing-electable", shipped=(2004, True))(
    lambda: refused(dead_master(), 1002, {"brokerId": "-1"})
)
RESPONSES.row("2005-heartbeat-without-id", shipped=(2005, True))(
    lambda: refused(Rig().lead(), 904, {"brokerId": ""})
)
RESPONSES.row(
    "2006-not-alive",
    shipped=(2006, True),
    ours=(0, False),
    because=(
        "a member that is in the set already and acknowledges need not be heard here (S16); a "
        "joiner must be"
    ),
)(lambda: altered("1,3", 2))
RESPONSES.row("2008-unknown-set", shipped=(2008, True))(lambda: refused(Rig().lead(), 1004))
RESPONSES.row("2009-invalid-clean", shipped=(2009, True))(lambda: refused(Rig().lead(), 1011))
RESPONSES.row("2010-elect-unknown-set", shipped=(2010, True))(lambda: refused(Rig().lead(), 1002))
RESPONSES.row("2010-register-unknown-set", shipped=(2010, True))(
    lambda: refused(Rig().lead(), 1003)
)
RESPONSES.row("2010-register-unknown-id", shipped=(2010, True))(
    lambda: refused(Rig().lead().three(), 1003, {"brokerId": "9"})
)
RESPONSES.row("2011-master-kept", shipped=(2011, True))(
    lambda: refused(Rig().lead().three(), 1002, {"brokerId": "2"})
)
RESPONSES.row("2012-failed", shipped=(2012, True))(
    lambda: refused(dead_master(), 1002, {"brokerId": "2"})
)
RESPONSES.row("2013-unknown-set", shipped=(2013, True))(
    lambda: refused(Rig().lead(), 1001, {}, BODIES[1001])
)
RESPONSES.row("2013-unchanged-set", shipped=(2013, True))(lambda: altered("1,2,3", 2))
RESPONSES.row("2013-set-without-master", shipped=(2013, True))(lambda: altered("2", 2))
RESPONSES.row("2014-id-taken", shipped=(2014, True))(
    lambda: refused(Rig().lead().three(), 1013, {"registerCheckCode": "x:1;1"})
)
RESPONSES.row("16-black-list", shipped=(16, True))(
    lambda: refused(Rig().lead(), 1009, {}, b"rocketmqHome=x")
)


@RESPONSES.row("2-executor-full", shipped=(2, True))
def _() -> tuple[int, bool]:
    rig = Rig(requests_max=1).lead()
    rig.auto = False
    rig.request(1013, FULL)
    return refused(rig, 1013, {"brokerName": "other"})


@RESPONSES.row("3-unknown-code", shipped=" request type 9999 not supported")
def _() -> str | None:
    answer = Rig().lead().request(9_999)
    assert answer is not None and answer.code == 3
    return answer.remark


FRAMING = Table("1")


@FRAMING.row("both-serialisations-are-read", shipped=[0, 0])
def _() -> list[int]:
    found = []
    for kind in (0, 1):
        rig = Rig().lead().three()
        sent = RemotingCommand.request(1004, {"brokerName": SET, "Signature": "s"})
        sent.serialization, sent.opaque, sent.language = kind, 5, "JAVA"
        (read,) = FrameDecoder().feed(encode(sent))
        rig.perform(rig.core.on_request(1, "b:1", read, rig.now_ms, rig.wall_ms))
        (reply,) = rig.take(fx.Reply)
        assert reply.response.opaque == 5 and reply.response.serialization == 0
        found.append(reply.response.code)
    return found


@FRAMING.row("null-fields-are-left-out", shipped=True)
def _() -> bool:
    rig = Rig().lead()
    rig.join(1)
    answer = rig.request(1004, {"brokerName": SET})
    assert answer is not None
    return (
        "masterBrokerId" not in answer.ext
        and "masterAddress" not in answer.ext
        and "null" not in answer.body.decode()
    )


@FRAMING.row("a-field-that-cannot-be-read-is-as-absent", shipped=[0, 2005, 1])
def _() -> list[int]:
    """904 with an unreadable offset, 904 with an unreadable id, 1013 with an unreadable id."""
    asked = [
        (904, FULL | {"maxOffset": "1_0"}),
        (904, FULL | {"brokerId": "0x1"}),
        (1013, FULL | {"appliedBrokerId": " 1"}),
    ]
    answers = [Rig().lead().request(code, ext) for code, ext in asked]
    return [answer.code for answer in answers if answer is not None]


FRAMING.shown(
    "one-way-is-never-answered",
    "tests/unit/processors/controller/test_core.py::test_a_one_way_request_is_never_answered_however_late",
)
FRAMING.shown(
    "processor-failure-is-code-1",
    "tests/integration/test_controller_wire.py::test_garbage_is_answered_and_the_process_goes_on",
)
FRAMING.shown(
    "idle-channel-is-closed",
    "tests/unit/brokers/remoting/test_limits.py::"
    "test_frames_and_idle_connections_are_bounded_as_in_rocketmq",
)


@pytest.mark.parametrize("row", [*REQUESTS.rows, *RESPONSES.rows, *FRAMING.rows])
def test_codes(row: Row | Shown) -> None:
    row.check()
