"""A client that greeted a broker, consumer of group g and producer of group pg, and what it is
asked.
"""

from __future__ import annotations

from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from tests.support.client_service import Desk

JAVA_5_3_3 = 479


class GreetingClient:
    """A client that greeted the broker; `answers`: what it says when it is asked."""

    def __init__(self, desk: Desk, client_id: str = "me", answers: Answer = None) -> None:
        self._desk, self._id, self._answers = desk, client_id, answers
        self.asked: list[RemotingCommand] = []
        self._client = RemotingClient(self._take)

    def _take(self, _connection: Connection, request: RemotingCommand) -> Answer:
        if request.code != 40:
            self.asked.append(request)
        if isinstance(self._answers, RemotingCommand):
            return request.reply(
                self._answers.code, self._answers.ext, self._answers.body, self._answers.remark
            )
        return None

    async def __aenter__(self) -> GreetingClient:
        consumer = {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {"topic": "T", "subString": "A", "codeSet": [65], "subVersion": 3}
            ],
        }
        body = {
            "clientID": self._id,
            "producerDataSet": [{"groupName": "pg"}],
            "consumerDataSet": [consumer],
        }
        request = RemotingCommand.request(34, body=fastjson.dumps(body))
        request.version = JAVA_5_3_3
        assert (await self.call(request)).code == 0
        return self

    async def call(self, request: RemotingCommand) -> RemotingCommand:
        return await self._client.call(self._desk.address, request, 30_000)

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()
