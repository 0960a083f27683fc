"""A broker of RocketMQ 5.3.3 whose log is a DLedger group with two members of ours.

Responsible for: that RocketMQ's broker reads what ours wrote: the message in the entry that begins
a term of ours passes by its dispatch and its recovery, and every message before and behind it is in
its queue. Refuses to know: how members replicate (`dledger_group`).
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import TransferRequest
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.store.log.records import decode_messages
from tests.interop.java_rocketmq import JavaBroker
from tests.interop.stage import Row, Stage
from tests.support.brokers import pull_request, send_request, until
from tests.support.majority_group import GroupClient, MemberProgram, addresses, peers_text

GROUP, TOPIC, BROKER = "broker-a", "interop", "n0"
FILE_BYTES = 16 << 20
AT_A_TIME = 30
WITHIN_S = 150
# DLedger's own times: RocketMQ's broker has no settings for them.
OURS: dict[str, object] = {
    "group": GROUP,
    "heartbeat_ms": 2_000,
    "heartbeats_missed_max": 3,
    "vote_pause_min_ms": 300,
    "vote_pause_max_ms": 1_000,
    "data_file_bytes": FILE_BYTES,
    "index_file_bytes": 5 * 1024 * 1024 * 32,
    "first_entry": "message",
}


class _Group:
    """The broker, two members of ours, and what was sent."""

    def __init__(self, stage: Stage, work: Path) -> None:
        names = addresses(3)
        self.ours = {
            name: MemberProgram(work, names, name, **OURS) for name in names if name != BROKER
        }
        self.java: JavaBroker = stage.java.broker(
            "dledger-broker",
            controllers=[],
            name_servers=[],
            broker_set=GROUP,
            settings={
                "enableControllerMode": "false",
                "enableDLegerCommitLog": "true",
                "dLegerGroup": GROUP,
                "dLegerPeers": peers_text(names),
                "dLegerSelfId": BROKER,
                "mappedFileSizeCommitLog": str(FILE_BYTES),
                # The broker asks it for the role of a slave, though DLedger gives it.
                "brokerRole": "SYNC_MASTER",
            },
            start=False,
        )
        self.members = GroupClient(names, GROUP)
        self.client = RemotingClient()
        self.sent: list[bytes] = []

    async def send(self) -> None:
        """To the broker, once it serves as master."""
        for _ in range(AT_A_TIME):
            body = b"%d" % len(self.sent)

            async def taken(body: bytes = body) -> bool:
                try:
                    request = send_request(TOPIC, body)
                    answer = await self.client.call(self.java.address, request, 5_000)
                except RemotingError:
                    return False
                return answer.code == 0

            await until(taken, f"the broker took {body!r}", WITHIN_S, pause_s=0.2)
            self.sent.append(body)

    async def pulled(self) -> list[bytes]:
        """The bodies of the queue, from its begin."""
        found: list[bytes] = []
        while True:
            request = pull_request(TOPIC, 0, len(found))
            answer = await self.client.call(self.java.address, request, 5_000)
            if answer.code != 0:
                return found
            found += [bytes(one.fields.body) for one in decode_messages(answer.body)]

    async def hand_over(self, to: str) -> None:
        """Until this member leads."""

        async def leads() -> bool:
            leader = await self.members.leader()
            if leader == to:
                return True
            # Nobody but the broker appends: an entry of another kind would be no message. The term
            # is known from ours.
            said = await self.members.standings(list(self.ours))
            term = max(one.term for one in said.values())
            request = TransferRequest(
                group=GROUP, remote_id=leader, local_id="operator", term=term,
                transfer_id=leader, transferee_id=to,
            )  # fmt: skip
            answer = await self.members.ask(leader, request)
            return (
                answer is not None
                and answer.code == Code.SUCCESS
                and (await self.members.leader() == to)
            )

        await until(leads, f"{to} leads", WITHIN_S, pause_s=0.5)

    async def end(self) -> None:
        await self.client.close()
        await self.members.close()
        for one in self.ours.values():
            await one.end(signal.SIGTERM)
        self.java.end()


def run(stage: Stage) -> list[Row]:
    """Java leads, ours leads, Java leads again, and is killed."""
    return asyncio.run(_scenario(stage))


async def _scenario(stage: Stage) -> list[Row]:
    work = stage.work / "dledger-broker"
    work.mkdir()
    group = _Group(stage, work)
    try:
        await asyncio.gather(*(one.start() for one in group.ours.values()))
        await asyncio.to_thread(group.java.start)
        await group.hand_over(BROKER)
        await group.send()
        stage.say("the broker leads")
        rows = [await _read(group, "a broker on a group with two of ours")]
        for member in group.ours:
            await group.hand_over(member)
            stage.say(f"{member} of ours leads")
        await group.hand_over(BROKER)
        await group.send()
        rows.append(await _read(group, "behind two terms of ours"))
        await asyncio.to_thread(group.java.kill)
        await group.members.leader(list(group.ours))
        stage.say("the broker is killed, and comes back")
        await asyncio.to_thread(group.java.start)
        await group.hand_over(BROKER)
        await group.send()
        rows.append(await _read(group, "killed, and behind a term of ours"))
        return rows
    finally:
        await group.end()


async def _read(group: _Group, what: str) -> Row:
    found: list[bytes] = []

    async def all_there() -> bool:
        nonlocal found
        found = await group.pulled()
        return len(found) >= len(group.sent)

    try:
        await until(all_there, "every message is in its queue", 30, pause_s=0.2)
    except AssertionError:
        pass
    missing = [body for body in group.sent if body not in found]
    doubled = len(found) - len(set(found))
    good = f"{len(group.sent)} messages read in order, {doubled} twice"
    ordered = list(dict.fromkeys(found)) == group.sent
    text = good if ordered else f"{len(missing)} of {len(group.sent)} are not there: {missing[:3]}"
    return Row(what, text, ordered)
