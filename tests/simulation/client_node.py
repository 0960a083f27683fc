"""A client: sends to whom it believes to be the master, reads the queue in order, tries again.

Refuses to know: who the master is by any other way than trying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from tests.simulation.disk import TOPIC
from tests.simulation.network import End
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

EVERY_MS = (5, 60)
PATIENCE = 2  # more clients send less often each, so that worlds stay as long
TIMEOUT_MS = 800
BODY_BYTES = (1, 400)
READ_ONE_IN = 3
PULL_NOT_FOUND, PULL_RETRY, PULL_OFFSET_MOVED = 19, 20, 21
READ_ON = (PULL_RETRY, PULL_OFFSET_MOVED)  # the answer says where
STORED = (0, 10)  # also when the disk was too slow to say so
ODD_EVERY = 25
USUAL = {
    "producerGroup": "clients",
    "topic": TOPIC,
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "0",
    "flag": "0",
    "properties": "WAIT\x01true\x02",
}
ODD = (
    {**USUAL, "properties": "TRAN_MSG\x01true\x02DELAY\x011\x02"},
    {**USUAL, "topic": "nobody-made-it"},
    {**USUAL, "topic": "SCHEDULE_TOPIC_XXXX"},
)
"""What a broker does not store: a transaction message that is to wait, one for a topic that is not
there, one for a topic that is not for clients.
"""


class ClientNode:
    """Does one thing at a time."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.world, self.name = cluster, cluster.world, name
        self.life, self.up, self.paused = 1, True, False
        self.stopped = False
        self._sequence = self._slot = 0
        self._target = 0
        self._wires: dict[str, Wire] = {}
        self._slowness = max(1, cluster.shape.clients // PATIENCE)
        self._again()

    def _again(self) -> None:
        if not self.stopped:
            self.world.after(self.world.chance.randint(*EVERY_MS) * self._slowness, self._act)

    def _act(self) -> None:
        if self.world.one_in(READ_ONE_IN):
            self.world.count("message.asked_for")
            self._request(
                RemotingCommand.request(RequestCode.PULL_MESSAGE, body=str(self._slot).encode())
            )
            return
        self._sequence += 1
        size = self.world.chance.randint(*BODY_BYTES)
        body = f"{self.name}:{self._sequence}:".encode() + bytes(size)
        self.world.count("message.sent")
        odd = self.cluster.shape.odd_sends and self._sequence % ODD_EVERY == 0
        ext = ODD[self._sequence // ODD_EVERY % len(ODD)] if odd else USUAL
        self._request(RemotingCommand.request(RequestCode.SEND_MESSAGE, ext, body=body))

    def _request(self, request: RemotingCommand) -> None:
        node = self.cluster.brokers[self._target % len(self.cluster.brokers)]
        wire = self._wires.get(node.name)
        if wire is not None and wire.open:
            wire.call(request, TIMEOUT_MS, lambda answer: self._answered(request, answer))
            return

        def opened(end: End) -> None:
            self._wires[node.name] = Wire(self.world, end, lambda wire, request: None)
            self._wires[node.name].call(
                request, TIMEOUT_MS, lambda answer: self._answered(request, answer)
            )

        self.cluster.network.connect(
            self, node, node.accept, opened, lambda why: self._answered(request, None)
        )

    def _answered(self, request: RemotingCommand, answer: RemotingCommand | None) -> None:
        if answer is None or answer.code not in (*STORED, PULL_NOT_FOUND, *READ_ON):
            self._target += 1
        elif request.code == RequestCode.SEND_MESSAGE:
            self.cluster.checkers.told(self, request.body)
        elif answer.code in READ_ON:
            self._slot = int(answer.body)
        elif request.code == RequestCode.PULL_MESSAGE and answer.code == 0:
            self.cluster.checkers.read(self.name, int(request.body), answer.body)
            self._slot = int(request.body) + 1
        self._again()
