"""RULES 5.1 to 5.4: the next id, taking it, registering, reading."""

import json

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.liveness.role_taking import REGISTERS_MS
from processors.wire import answers as read_answers
from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import CLUSTER, NAME, History, with_master, with_replicas
from tests.support.controller_rig import SET, Rig

NAMES = {"clusterName": CLUSTER, "brokerName": NAME}


def next_id(history: History) -> int:
    """What 1012 answers."""
    request = RemotingCommand.request(1012, NAMES)
    return int(read_answers.next_broker_id(request, history.folder.state).ext["nextBrokerId"])


NEXT = Table("5.1")


@NEXT.row("row-1", shipped=1)
def _() -> int:
    return next_id(History())


@NEXT.row("row-2", shipped=4)
def _() -> int:
    return next_id(with_replicas(1, 2, 3))


@NEXT.row("pure-read", shipped=(2, 2))
def _() -> tuple[int, int]:
    history = with_replicas(1)
    return next_id(history), next_id(history)


@NEXT.row("after-clean-all", shipped=1, ours=4, because="S9: a tombstone keeps the next id")
def _() -> int:
    history = with_replicas(1, 2, 3)
    history.clean(None, living=True)
    return next_id(history)


APPLY = Table("5.2")


@APPLY.row("row-1", shipped=(0, "h1:10911", 2))
def _() -> tuple[int, str, int]:
    history = History()
    code = history.apply_id(1, "h1:10911;7").code
    return code, history.set.replica(1).address, history.set.next_broker_id


@APPLY.row("row-2", shipped=[2014, 2014])
def _() -> list[int]:
    return [History().apply_id(wanted).code for wanted in (2, 100)]


@APPLY.row("row-3", shipped=(0, 3))
def _() -> tuple[int, int]:
    history = with_replicas(1)
    return history.apply_id(2).code, history.set.next_broker_id


@APPLY.row("row-3-not-the-next", shipped=(0, 3), ours=(2014, 2), because="S9: only the next id")
def _() -> tuple[int, int]:
    history = with_replicas(1)
    return history.apply_id(100).code, history.set.next_broker_id


@APPLY.row("row-4", shipped=(0, (), 2))
def _() -> tuple[int, tuple[object, ...], int]:
    history = with_replicas(1)
    outcome = history.apply_id(1)
    return outcome.code, outcome.changes, history.set.next_broker_id


@APPLY.row("row-5", shipped=2014)
def _() -> int:
    return with_replicas(1).apply_id(1, "h9:1;other").code


@APPLY.row("cleaned-id-again", shipped=(0, 4), ours=(2014, 3), because="S9: ids never restart")
def _() -> tuple[int, int]:
    history = with_replicas(1, 2)
    history.clean((2,))
    return history.apply_id(2).code, history.set.next_broker_id


@APPLY.row("cleaned-id-same-code", shipped=0, ours=2014, because="S9: what is cleaned is forgotten")
def _() -> int:
    history = with_replicas(1, 2)
    history.clean((2,))
    return history.apply_id(2).code


@APPLY.row("cluster-name-not-checked", shipped=(0, CLUSTER))
def _() -> tuple[int, str]:
    from events.commands import ApplyBrokerId

    history = with_replicas(1)
    outcome = history.do(ApplyBrokerId(history.envelope(), "Other", NAME, 2, "h2:1;x"))
    return outcome.code, history.set.cluster_name


@APPLY.row("fresh-cluster-name-after-clean-all", shipped=(0, "Other"))
def _() -> tuple[int, str]:
    """Shipped code drops the set, so it begins again under the name that it is told; so do we."""
    from events.commands import ApplyBrokerId

    history = with_replicas(1)
    history.clean(None)
    outcome = history.do(
        ApplyBrokerId(history.envelope(), "Other", NAME, next_id(history), "h:1;x")
    )
    return outcome.code, history.set.cluster_name


@APPLY.row("no-code-or-no-id", shipped=[1, 1])
def _() -> list[int]:
    rig = Rig().lead()
    whole = NAMES | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"}
    answers = [
        rig.request(1013, {k: v for k, v in whole.items() if k != left}) for left in list(whole)[2:]
    ]
    return [answer.code for answer in answers if answer]


REGISTER = Table("5.3")


def java_registration(rig: Rig, broker: int, address: str = "", name: str = SET) -> RemotingCommand:
    ext = {
        "clusterName": "C",
        "brokerName": name,
        "brokerId": str(broker),
        "brokerAddress": address or f"b{broker}:10911",
        "invokeTime": "7",
    }
    answer = rig.request(1003, ext, conn=broker)
    assert answer is not None
    return answer


def java_pair() -> Rig:
    """Java brokers 1 and 2 with ids, 1 is master."""
    rig = Rig().lead()
    for broker in (1, 2):
        code = {"appliedBrokerId": str(broker), "registerCheckCode": f"b{broker}:10911;1"}
        assert rig.request(1013, {"clusterName": "C", "brokerName": SET} | code)
        java_registration(rig, broker)
        beat = {
            "clusterName": "C",
            "brokerName": SET,
            "brokerAddr": f"b{broker}:10911",
            "brokerId": str(broker),
            "epoch": "0",
            "maxOffset": "100",
            "confirmOffset": "0",
            "heartbeatTimeoutMills": "3000",
        }
        rig.request(904, beat, conn=broker, oneway=True)
    assert rig.elect(1).code == 0
    # the master says that it has its role: polls of its Java slave wait for that
    (question,) = rig.take(fx.AskBroker)
    has_role = question.request.reply(0, {"masterHaAddress": "b1:10912"})
    rig.perform(rig.core.on_broker_answer(question.token, has_role, rig.now_ms))
    rig.pass_time(REGISTERS_MS)
    return rig


def told(answer: RemotingCommand) -> tuple[int, str | None, bool]:
    """Code, master and whether a body came."""
    return answer.code, answer.ext.get("masterBrokerId"), bool(answer.body)


@REGISTER.row("row-1", shipped=((2010, None, False), SET))
def _() -> tuple[object, str]:
    answer = java_registration(Rig().lead(), 1)
    return told(answer), answer.ext["brokerName"]


@REGISTER.row("row-2", shipped=(2010, None, False))
def _() -> object:
    return told(java_registration(java_pair(), 9))


@REGISTER.row("row-3", shipped=((0, "1", True), "b1:10911", "1", [1]))
def _() -> tuple[object, ...]:
    answer = java_registration(java_pair(), 2)
    body = json.loads(answer.body)
    return (
        told(answer),
        answer.ext["masterAddress"],
        answer.ext["masterEpoch"],
        body["syncStateSet"],
    )


@REGISTER.row("row-3-no-master-yet", shipped=(0, None, True))
def _() -> object:
    rig = Rig().lead()
    names = {"clusterName": "C", "brokerName": SET}
    rig.request(1013, names | {"appliedBrokerId": "1", "registerCheckCode": "b1:10911;1"})
    return told(java_registration(rig, 1))


@REGISTER.row("row-3-master-not-alive", shipped=(0, None, True))
def _() -> object:
    rig = java_pair()
    rig.close_connection(1)
    return told(java_registration(rig, 2))


@REGISTER.row(
    "row-3-master-itself-restarted",
    shipped=(0, "1", True),
    ours=(0, None, True),
    because="S6: a recorded master that restarted never goes on in its epoch",
)
def _() -> object:
    return told(java_registration(java_pair(), 1))


@REGISTER.row(
    "event-iff-address-differs", shipped=([], ["BrokerRegistered"], "h2:7", "h2:10911;secret")
)
def _() -> tuple[object, ...]:
    history = with_replicas(1)
    history.apply_id(2), history.register_java(2)
    same = [type(change).__name__ for change in history.register_java(2).changes]
    moved = [type(change).__name__ for change in history.register_java(2, "h2:7").changes]
    return same, moved, history.set.replica(2).address, history.set.replica(2).register_check_code


@REGISTER.row(
    "answer-before-the-update",
    shipped="b1:10911",
    ours="b1:7",
    because="D5: answers come from the state after the command",
)
def _() -> str:
    """Who asks for the master right after it moved is told where it is now."""
    rig = java_pair()
    java_registration(rig, 1, "b1:7")
    return (
        java_registration(rig, 2).ext.get("masterAddress") or rig.state.sets[SET].master().address
    )


@REGISTER.row("never-elects-never-alters", shipped=((1, 3, 2), (1, 3, 2)))
def _() -> tuple[object, object]:
    history = with_master(1, 2)
    history.register(2, "again"), history.register_java(3)

    def view() -> tuple[int, int, int]:
        now = history.set
        return now.master_epoch, len(now.replicas), now.sync_state_set_epoch

    first = view()
    history.register(2, "and again"), history.register_java(3, "h3:8")
    return first, view()


@REGISTER.row("unclean-start", shipped=(1, 2), ours=(1,), because="S5: it leaves the set at once")
def _() -> tuple[int, ...]:
    history = with_master(1, 2)
    history.register(2, "after power loss", clean=False)
    return history.set.sync_state_set


READ = Table("5.4")


def read(rig: Rig, name: str) -> RemotingCommand:
    answer = rig.request(1004, {"brokerName": name})
    assert answer is not None
    return answer


@READ.row("unknown-set", shipped=2008)
def _() -> int:
    return read(Rig().lead(), "nobody").code


@READ.row("no-master-yet", shipped=(0, None, "0", {"syncStateSet": [], "syncStateSetEpoch": 0}))
def _() -> tuple[object, ...]:
    rig = Rig().lead()
    rig.join(1)
    answer = read(rig, SET)
    return (
        answer.code,
        answer.ext.get("masterBrokerId"),
        answer.ext["masterEpoch"],
        json.loads(answer.body),
    )


@READ.row("a-dead-master-is-still-told", shipped=(0, "1"))
def _() -> tuple[int, str]:
    rig = java_pair()
    rig.close_connection(1)
    answer = read(rig, SET)
    return answer.code, answer.ext["masterBrokerId"]


@READ.row("cleaned-away", shipped=2008)
def _() -> int:
    rig = java_pair()
    rig.request(1011, {"clusterName": "C", "brokerName": SET, "isCleanLivingBroker": "true"})
    return read(rig, SET).code


@READ.row("sync-state-data", shipped=("1", [(1, True)], [(2, True)], 1))
def _() -> tuple[object, ...]:
    answer = java_pair().request(1006, body=b'["a"]')
    assert answer is not None
    info = json.loads(answer.body)["replicasInfoTable"]["a"]
    inside, outside = (
        [(one["brokerId"], one["alive"]) for one in info[side]]
        for side in ("inSyncReplicas", "notInSyncReplicas")
    )
    return str(info["masterBrokerId"]), inside, outside, info["masterEpoch"]


@READ.row("sync-state-data-of-nobody", shipped=[1, 1, (0, ["a"])])
def _() -> list[object]:
    rig = java_pair()
    answers = [rig.request(1006, body=body) for body in (b"", b"[]", b'["nobody","a"]')]
    assert all(answers)
    return [
        answers[0].code,
        answers[1].code,
        (answers[2].code, list(json.loads(answers[2].body)["replicasInfoTable"])),
    ]


@pytest.mark.parametrize("row", [*NEXT.rows, *APPLY.rows, *REGISTER.rows, *READ.rows])
def test_row(row: Row | Shown) -> None:
    row.check()
