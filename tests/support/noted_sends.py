"""Sends that failed, told apart by whether the machine was to blame; what can be read back."""

from __future__ import annotations

from brokers.remoting.client import RemotingClient
from brokers.service.role.forward import CALL_TIMEOUT_MS
from brokers.store.log.records import decode_messages
from infra.workload.ledger import Ledger
from infra.workload.message import sequence_of
from infra.workload.producer import Producer
from tests.support.brokers import pull_request

STOOD_STILL = "stood still"
CALL_MS = 60_000


class NotedLedger(Ledger):
    """Keeps why each call failed."""

    reasons: list[str]

    def leave_open(self, sequence: int, reason: str) -> None:
        super().leave_open(sequence, reason)
        self.reasons = [*getattr(self, "reasons", []), reason]

    def failures(self, producer: Producer) -> list[str]:
        """Where this machine was no slower than a send may be passed on, and did not hold up a
        process: it refuses then what it may have read too late.
        """
        if producer.meter.longest_gap_ms > CALL_TIMEOUT_MS:
            return []
        return [one for one in getattr(self, "reasons", []) if STOOD_STILL not in one]


async def stored(client: RemotingClient, master: str, topic: str, queues: int) -> set[int]:
    """The sequence numbers of all messages of a topic."""
    found: set[int] = set()
    for queue in range(queues):
        offset = 0
        while True:
            answer = await client.call(master, pull_request(topic, queue, offset), CALL_MS)
            if answer.code != 0:
                break
            messages = decode_messages(answer.body)
            found.update(sequence_of(message.fields.body) for message in messages)
            offset = int(answer.ext["nextBeginOffset"])
    return found
