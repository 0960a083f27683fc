"""An epoch that begins where the last one began (S13): two masters' different bytes under one
label, or not.

Java rejects the entry of such an epoch, so that what its master writes stands under the label of
the one before. The message of a dead master and the message of its successor, equally long, then
lie at one offset under one label; the dead one returns, nothing is cut, and it is taken back into
the set with other bytes (`../golden/ha/epoch-collision-rejoin.jsonl`).

Responsible for: that history among Java replicas alone, where it loses a message, and with a broker
of Regent as the new master, as a slave with the dead master's bytes, and as the dead master itself.
Refuses to know: histories that parted at different offsets (`java_histories`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from tests.interop.both_kinds import (
    at_rest,
    broker_set,
    equal_logs,
    folders,
    java,
    kill_together,
    log_end,
    make_master,
    ours,
)
from tests.interop.java_client import PATIENT, Producer, first_message, read_back
from tests.interop.java_rocketmq import FAST_CONTROLLER_SETTINGS
from tests.interop.java_set import ASK_MS, BROKER_SET, JavaSet, commit_bytes_differ, start_brokers
from tests.interop.ledger import LedgerRow
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

LABEL_WITHIN_S = 30.0
SENT_WITHIN_S = 60.0
GIVE_UP_S = 10.0
FIRST = 1_001
AS_RELEASED = {
    "allAckInSyncStateSet": "false",
    "inSyncReplicas": "1",
    "minInSyncReplicas": "1",
    "totalReplicas": "1",
}
"""The golden recording's: two replicas, what a broker in controller mode has by default."""
STAYS_MEMBER_MS = 20_000


def collision(stage: Stage) -> list[Row]:
    """Java alone first; then a set of two Java brokers and one of ours, ours in each role."""
    stage.drop_shared()
    rows = _java_alone(stage)
    members = [
        java("java-1"),
        java("java-2", brokerElectionPriority="1"),
        ours("ours", ack_wait_shrink_ms=STAYS_MEMBER_MS),
    ]
    with broker_set(stage, "collision", members) as brokers:
        first, second, own = brokers.brokers
        play = _Play(stage, brokers, "Collision")
        play.topic_known()
        rows += _ours_supersedes(play, first, second, own)
        rows += _ours_returns(play, first, second, own)
        rows += _ours_follows(play, first, second, own)
        found = read_back(stage, brokers.name_servers, play.topic, play.sent)
        return [*rows, Row("acknowledged lost", str(found), found.ok)]


# -- Java alone ------------------------------------------------------------------------------------


def _java_alone(stage: Stage) -> list[Row]:
    with ExitStack() as stack:
        brokers = _two_of_java(stage, stack)
        play = _Play(stage, brokers, "CollisionJava")
        first, second = brokers.brokers
        play.topic_known()
        _swap(brokers, first)
        begins = play.label_heard(second, [first])
        stage.say(
            f"{second.name} leads from {begins} on; {first.name} stands still, one message is "
            "acknowledged, kill -9 of both"
        )
        first.pause()
        play.send()
        kill_together(second, first)
        play.leads_alone(first)
        play.send()
        second.start(wait=False)
        whole = brokers.whole()
        found = read_back(stage, brokers.name_servers, play.topic, play.sent, limit_s=GIVE_UP_S)
        differ = commit_bytes_differ(folders(brokers.brokers))
        return [
            Row(
                "two Java replicas as released: one label, two masters' bytes",
                f"{differ}; epochs {first.epochs()} and {second.epochs()}",
                bool(differ) and first.epochs() == second.epochs(),
            ),
            Row(
                "and the one that died is taken back: Java's own loss",
                f"{whole}; acknowledged lost {found}",
                bool(found.lost),
            ),
        ]


def _two_of_java(stage: Stage, stack: ExitStack) -> JavaSet:
    stage.say("starting a Java controller, a Java name server and two Java brokers as released")
    name_server = stage.java.name_server("collision-namesrv")
    stack.callback(name_server.end)
    controller = stage.java.controller("collision-controller", FAST_CONTROLLER_SETTINGS)
    stack.callback(controller.end)
    made = start_brokers(
        stage,
        "the Java controller, as released",
        [controller.address],
        [name_server.address],
        count=2,
        prefix="collision-",
        settings=AS_RELEASED,
    )
    for one in made:
        stack.callback(one.end)
    brokers = JavaSet(
        stage.java,
        ControllerAdmin([controller.address], ASK_MS),
        BROKER_SET,
        name_server.address,
        made,
        name_server,
    )
    brokers.whole()
    return brokers


def _swap(brokers: JavaSet, master: Replica) -> None:
    """The master dies, the other one leads, it comes back: nothing is written meanwhile."""
    before = brokers.whole()
    if before.master_id != master.broker_id:
        raise Problem(f"{master.name} is not the first master", str(before))
    master.kill()
    brokers.new_master(master.broker_id, before.master_epoch)
    master.start(wait=False)
    brokers.whole()


# -- with ours -------------------------------------------------------------------------------------


def _gave_way(
    play: _Play, what: str, old: tuple[int, int], witness: Replica, begins: int
) -> list[Row]:
    """The set is whole again, and one newer epoch stands where the `old` one began."""
    view = play.brokers.whole()
    labels = [pair for pair in witness.epochs() if pair[1] == begins]
    row = Row(
        what, f"{old} gives way to {labels}; {view}", len(labels) == 1 and labels[0][0] > old[0]
    )
    return [row, equal_logs(play.brokers)]


def _ours_supersedes(play: _Play, first: Replica, second: Replica, own: Replica) -> list[Row]:
    begins, old = play.dies_ahead(first, via=own, label=[second, own])
    make_master(play.brokers, own)
    play.send()
    first.start(wait=False)
    return _gave_way(play, "ours leads next: its epoch supersedes the Java one's", old, own, begins)


def _ours_returns(play: _Play, first: Replica, second: Replica, own: Replica) -> list[Row]:
    begins, old = play.dies_ahead(own, via=first)
    play.send()
    own.start(wait=False)
    return _gave_way(play, "ours died ahead, Java leads next: ours is cut", old, second, begins)


def _ours_follows(play: _Play, first: Replica, second: Replica, own: Replica) -> list[Row]:
    """Two Java masters under one label; ours holds the bytes of the first, and so does that one
    itself.
    """
    begins, old = play.dies_ahead(first, via=own, holders=[own], label=[second, own], heir=second)
    view = play.brokers.whole()
    one_label = (
        second.epochs()[-1] == old
        and view.master_epoch > old[0]
        and view.master_id == second.broker_id
    )
    play.send()
    rows = [
        Row(
            "Java leads next under the dead Java master's label",
            f"label {old} in epoch {view.master_epoch}, master {view.master_id}",
            one_label,
        ),
        Row(
            "ours has the dead one's bytes there: it cuts them",
            f"from {begins} on: {play.brokers.view()}",
        ),
        equal_logs(play.brokers),
    ]
    first.start(wait=False)
    view = play.brokers.whole()
    differ = commit_bytes_differ(folders([first, second]))
    first.kill()
    play.brokers.whole()
    return [
        *rows,
        Row(
            "the dead Java master itself, under a Java master: Java's own flaw",
            f"{differ or 'it was cut'}; {view}",
        ),
        replace(equal_logs(play.brokers), what="ours beside them"),
    ]


class _Play:
    """One set and one topic; every message has a sequence of its own, `sent` is the ledger of
    all.
    """

    def __init__(self, stage: Stage, brokers: JavaSet, topic: str) -> None:
        self.topic = topic
        self.brokers = brokers
        self.sent: list[LedgerRow] = []
        self._stage = stage
        self._next = FIRST

    def topic_known(self) -> None:
        """The topic exists, and every replica has heard of it."""
        first_message(self._stage, self.brokers.name_servers, self.topic)
        self.brokers.all_know(self.topic)

    def send(self) -> None:
        """One message, until it is acknowledged."""
        producer = self._producer()
        try:
            producer.wait(
                lambda rows: bool(rows) and rows[-1].outcome == "SEND_OK",
                "one message is acknowledged",
                SENT_WITHIN_S,
            )
            self.sent += producer.stop()
        finally:
            producer.end()

    def _send_in_vain(self, end: int, holders: Sequence[Replica]) -> None:
        """One message that the holders store and nobody acknowledges: its producer is gone
        before.
        """
        producer = self._producer()
        try:
            self.brokers.world.wait_until(
                lambda: all(log_end(one) > end for one in holders),
                "the message is stored",
                SENT_WITHIN_S,
            )
        finally:
            producer.end()
        if [row for row in producer.rows() if row.outcome == "SEND_OK"]:
            raise Problem("a message that a member lacks was acknowledged", "")

    def _producer(self) -> Producer:
        sequence, self._next = self._next, self._next + 1
        return Producer(
            self._stage,
            self.brokers.name_servers,
            self.topic,
            settings=PATIENT,
            count=1,
            name=f"{self.topic}-{sequence}",
            options={"first": str(sequence), "threads": "1"},
        )

    def label_heard(self, master: Replica, others: Sequence[Replica]) -> int:
        """Where the master's epoch begins, at the end of its log, once the others know of it: no
        byte is of it yet.
        """
        end = at_rest(self.brokers)

        def known() -> bool:
            return all(one.epochs()[-1:] == master.epochs()[-1:] for one in others)

        self.brokers.world.wait_until(
            known, f"everybody has heard of {master.name}'s epoch", LABEL_WITHIN_S
        )
        if master.epochs()[-1][1] != end:
            raise Problem(
                f"the epoch of {master.name} does not begin at the log's end {end}",
                f"{master.epochs()}",
            )
        return end

    def dies_ahead(
        self,
        master: Replica,
        *,
        via: Replica,
        holders: Sequence[Replica] = (),
        label: Sequence[Replica] = (),
        heir: Replica | None = None,
    ) -> tuple[int, tuple[int, int]]:
        """`master` begins an epoch at the log's end and stores a message that only the holders get;
        all die, the others come back and one of them leads, `heir` if there is one. Where that
        epoch began, and its entry.
        """
        make_master(self.brokers, via)
        make_master(self.brokers, master)
        begins, entry = self.label_heard(master, label), master.epochs()[-1]
        others = [one for one in self.brokers.brokers if one is not master]
        got = "".join(f" and {one.name}" for one in holders)
        self._stage.say(
            f"{master.name} leads from {begins} on; kill -9 of all with a message there that only "
            f"{master.name}{got} has"
        )
        for one in others:
            if one not in holders:
                one.pause()
        self._send_in_vain(begins, [master, *holders])
        kill_together(master, *others)  # with the others goes what waits in their sockets
        if heir is not None:
            self.leads_alone(heir)
        for one in others:
            if one is not heir:
                one.start(wait=False)
        self.brokers.wait(
            "one of the others leads",
            lambda view: (
                view.has_master
                and view.master_id != master.broker_id
                and view.master_epoch > entry[0]
            ),
        )
        self.brokers.whole()
        return begins, entry

    def leads_alone(self, one: Replica) -> None:
        """It is started first of all that died, so it is elected."""
        before = self.brokers.last
        one.start(wait=False)
        self.brokers.wait(
            f"{one.name} leads",
            lambda view: (
                view.master_id == one.broker_id
                and (before is None or view.master_epoch > before.master_epoch)
            ),
        )
