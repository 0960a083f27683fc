"""Document 002: the life of a broker's identity as the controller sees it."""

import pytest

from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import History, seen, with_master, with_replicas

LIFE = Table("002")


def came_online(history: History, broker_id: int, code: str) -> list[int]:
    """Codes of 1013 and 1003."""
    return [history.apply_id(broker_id, code).code, history.register(broker_id).code]


@LIFE.row("first-start", shipped=([0, 0], [0, 0], 3))
def _():
    history = History()
    return (
        came_online(history, 1, "h1:1;a"),
        came_online(history, 2, "h2:1;b"),
        history.set.next_broker_id,
    )


@LIFE.row("restart", shipped=(0, 2))
def _():
    """The identity is on its disk: it goes on with 1003 alone."""
    history = with_replicas(1)
    return history.register(1, "again").code, history.set.next_broker_id


@LIFE.row("temporary-file-not-written", shipped=(True, [0, 0]))
def _():
    """Nothing was applied, so a new start begins from the beginning and gets the same id."""
    history = History()
    nothing = history.folder.state.sets.get("broker-a") is None
    return nothing, came_online(history, 1, "h1:1;new")


@LIFE.row("refused-another-took-the-id", shipped=[2014, 0, 0])
def _():
    """Its code is not the stored one: it deletes the temporary file and asks for the next id."""
    history = with_replicas(1)
    return [history.apply_id(1, "h2:1;late").code, *came_online(history, 2, "h2:1;later")]


@LIFE.row("refused-tells-the-next-id", shipped=False)
def _():
    """The document has the next id in a refusal; the wire has not (14.2), a broker asks again."""
    from tests.support.controller_rig import SET, Rig

    rig = Rig().lead()
    rig.join(1)
    ext = {
        "clusterName": "C",
        "brokerName": SET,
        "appliedBrokerId": "1",
        "registerCheckCode": "b2:1;x",
    }
    answer = rig.request(1013, ext)
    assert answer is not None and answer.code == 2014
    return "nextBrokerId" in answer.ext


@LIFE.row("applied-answer-lost", shipped=[0, 0, 0])
def _():
    """The temporary file has id and code: the same question again is the same id again."""
    history = History()
    return [history.apply_id(1, "h1:1;a").code, *came_online(history, 1, "h1:1;a")]


@LIFE.row("applied-final-file-not-written", shipped=([0, 0, 0], 2))
def _():
    history = History()
    codes = [history.apply_id(1, "h1:1;a").code for _ in range(3)]
    return codes, history.set.next_broker_id


@LIFE.row("applied-answer-lost-others-came", shipped=([0, 0], [1, 2, 3]))
def _():
    history = History()
    history.apply_id(1, "h1:1;a")
    history.apply_id(2), history.register(2), history.apply_id(3), history.register(3)
    return came_online(history, 1, "h1:1;a"), [r.broker_id for r in history.set.replicas]


@LIFE.row("applied-by-java-answer-lost", shipped=([2], [1]))
def _():
    """Java deletes its temporary file and takes the next id; the first one stays unclaimed and can
    be cleaned.
    """
    history = History()
    history.apply_id(1, "h1:1;a")
    came_online(history, 2, "h1:1;b")
    unclaimed = [r.broker_id for r in history.set.replicas if not r.is_registered]
    assert history.clean(tuple(unclaimed)).accepted
    return [r.broker_id for r in history.set.replicas], unclaimed


@LIFE.row("two-ask-at-once", shipped=[0, 2014, 0])
def _():
    """Both were offered 1; compare and set: one of them asks again."""
    history = History()
    return [
        history.apply_id(1, "h1:1;a").code,
        history.apply_id(1, "h2:1;b").code,
        history.apply_id(2, "h2:1;c").code,
    ]


@LIFE.row("another-address", shipped=("elsewhere:1", (1, 2), 1, 1))
def _():
    """The id is the identity: under a new address a slave stays what it was."""
    history = with_master(1, 2)
    history.register(2, "again", broker_address="elsewhere:1")
    now = history.set
    return now.replica(2).address, now.sync_state_set, now.master_broker_id, now.master_epoch


@LIFE.row("another-address-of-the-master", shipped=("elsewhere:1", 1, "elsewhere:1"))
def _():
    history = with_master(1, 2)
    history.register(1, "again", broker_address="elsewhere:1", last_epoch=1, end_offset=9000)
    change = history.elect(1, seen(2)).changes[0]
    return history.set.replica(1).address, history.set.master_broker_id, change.master_address


@LIFE.row("address-of-another", shipped=[0, "h1:10911", "h1:10911"])
def _():
    """A container's address was given to another one: two ids, and nothing is mixed up."""
    history = with_replicas(1, 2)
    code = history.register(2, "again", broker_address="h1:10911").code
    return [code, history.set.replica(1).address, history.set.replica(2).address]


@LIFE.row("wiped-disk", shipped=([0, 0], (1, 2), [1, 2, 3]))
def _():
    """It comes as a newcomer; what it was stays until the operator cleans it."""
    history = with_master(1, 2, replicas=(1, 2))
    codes = came_online(history, 3, "h2:10911;new")
    return codes, history.set.sync_state_set, [r.broker_id for r in history.set.replicas]


@LIFE.row("id-of-a-forgotten-set", shipped=2010)
def _():
    """A controller that lost the set says so, for ever: the id is never guessed."""
    return History().register(1).code


@LIFE.row("old-broker-without-an-id", shipped=[1, 1])
def _():
    """5.1.0 and older register by address: without an id there is nothing to register."""
    from tests.support.controller_rig import SET, Rig

    rig = Rig().lead()
    rig.join(1)
    old = {"clusterName": "C", "brokerName": SET, "brokerAddress": "b1:10911"}
    answers = [
        rig.request(1003, old),
        rig.request(1001, {"brokerName": SET, "masterAddress": "b1:10911", "masterEpoch": "1"}),
    ]
    return [answer.code for answer in answers if answer]


@LIFE.row("old-broker-heartbeats-without-an-id", shipped=(None, 2005))
def _():
    """One way as it is sent: no answer; asked both ways it is told what is missing."""
    from tests.support.controller_rig import SET, Rig

    rig = Rig().lead()
    beat = {"clusterName": "C", "brokerName": SET, "brokerAddr": "b1:10911"}
    answer = rig.request(904, beat)
    return rig.request(904, beat, oneway=True), answer.code if answer else None


LIFE.shown(
    "broker-side-of-the-failure-table",
    "tests/unit/brokers/membership/test_registration.py::test_a_failed_1012_starts_again_at_1012",
    "tests/unit/brokers/membership/test_registration.py::"
    "test_a_temp_file_that_cannot_be_written_leaves_nothing_behind",
    "tests/unit/brokers/membership/test_registration.py::test_an_id_taken_by_another_replica_is_given_up",
    "tests/unit/brokers/membership/test_registration.py::"
    "test_an_unanswered_1013_keeps_the_temp_file_and_repeats_the_same_command",
    "tests/unit/brokers/membership/test_registration.py::"
    "test_a_restart_with_a_temp_file_repeats_1013_with_its_check_code",
    "tests/unit/brokers/membership/test_registration.py::"
    "test_an_identity_file_that_cannot_be_written_repeats_1013",
    "tests/unit/brokers/membership/test_registration.py::test_with_both_files_the_identity_wins",
    "tests/unit/brokers/membership/test_registration.py::"
    "test_a_refused_1003_repeats_1003_and_never_asks_for_an_id",
    "tests/unit/brokers/membership/test_registration.py::test_files_of_another_broker_set_are_refused",
)


@pytest.mark.parametrize("row", LIFE.rows)
def test_row(row: Row | Shown) -> None:
    row.check()
