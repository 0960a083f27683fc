"""Brokers whose files are damaged: gone, torn, flipped; what is confirmed must be found bad, never
served, and made good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import decode_messages
from infra.workload.client import CallFailed, WorkloadClient
from infra.workload.message import sequence_of
from tests.chaos import damage
from tests.chaos.armed import Armed
from tests.chaos.broker_stage import QUEUES, BrokerStage
from tests.chaos.brokers_planned import done
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.line import Line
from tests.support.local_cluster import wait_until

FLIPS = 5
KEYS_ASKED = 50
SCRUBBED = {"scrub_every_s": 1}
REFUSED, REPAIRED = "is damaged and not served", "repaired from"
MADE_GOOD_WITHIN_S = 60.0
SET = "broker-a"


# -- gone ------------------------------------------------------------------------------------------


def folder_gone(of_master: bool, stage: BrokerStage) -> str:
    """The broker comes back with nothing, under a new id; the operator has the old one
    forgotten.
    """
    armed = Armed(stage)
    victim = stage.master() if of_master else stage.slaves()[0]
    with armed.killed(victim):
        old = broker_id_of(armed, victim)
        armed.empty(victim)
    return forget(stage, victim, old)


def folder_gone_alive(stage: BrokerStage) -> str:
    """The folder of a slave is removed while it runs, which dies later."""
    armed = Armed(stage)
    victim = stage.slaves()[0]
    old = broker_id_of(armed, victim)
    pid = armed.pid(victim)
    armed.empty(victim)
    stage.flows()
    if stage.cluster.process(victim)["pid"] == pid:
        stage.kill(victim)
    stage.wait_restarted({victim: pid})
    return forget(stage, victim, old)


def broker_id_of(armed: Armed, name: str) -> int:
    """As its identity file has it."""
    return int((armed.store(name) / "brokerIdentity").read_text().split("#")[2])


def forget(stage: BrokerStage, victim: str, old: int) -> str:
    """Who came back with nothing joins under a new id; the operator has the old one forgotten."""
    new = joined_anew(stage, victim, old)
    done(stage, "controller", "clean", SET, str(old), "--yes")
    return f"{victim} came back empty as replica {new} and copied all; replica {old} was cleaned"


def joined_anew(stage: BrokerStage, victim: str, old: int) -> int:
    """The id under which it is in sync, once that is another one than `old`."""
    told: list[int] = []

    def has_new_id() -> bool:
        status = stage.cluster.view.broker_status(stage.cluster.process(victim)["address"]) or {}
        told.append(int(status.get("broker_id") or old))
        return told[-1] != old

    wait_until(has_new_id, f"{victim} has an id of its own again")
    stage.cluster.set_view(f"replica {told[-1]} is in sync", lambda view: told[-1] in view.in_sync)
    return told[-1]


# -- the end of the log ----------------------------------------------------------------------------


def tail_damaged(stage: BrokerStage) -> str:
    """Master and a slave in turn, each with every kind of damage at the end of its log."""
    kinds = {
        "torn": lambda armed, store: damage.tear_last(store),
        "zeros": lambda armed, store: damage.zero_last(store, armed.chance.randint(1, 20)),
        "garbage": lambda armed, store: damage.garbage_behind(store, armed.chance),
    }
    armed, hit = Armed(stage), []
    for number, (kind, spoil) in enumerate(kinds.items()):
        for of_master in (True, False):
            victim = stage.master() if of_master else stage.slaves()[number % 2]
            with armed.killed(victim):
                spoil(armed, armed.store(victim))
            stage.cluster.whole()
            stage.flows(20)
            hit.append(f"{kind} {'master' if of_master else 'slave'}")
    return f"{', '.join(hit)} (seed {armed.seed})"


# -- bits ------------------------------------------------------------------------------------------


def bits_of_one(of_master: bool, stage: BrokerStage) -> str:
    """While it runs and serves: read at once from the damaged one, then found by its scrub."""
    armed = Armed(stage)
    victim = stage.master() if of_master else stage.slaves()[0]
    before = armed.log_now(victim)
    hit = damage.flip_bodies(armed.store(victim), _confirmed(stage, victim), FLIPS, armed.chance)
    served = served_by(stage, victim)
    _made_good(armed, before, victim, hit)
    return (
        f"{FLIPS} bodies of {victim}, {served} messages read from it meanwhile, all as sent; all "
        f"repaired (seed {armed.seed})"
    )


def bits_of_all(stage: BrokerStage) -> str:
    """Every replica has its own damage at the same time: none of it where another one has."""
    armed = Armed(stage)
    everybody = stage.brokers
    before = armed.log_now(*everybody)
    below = min(_confirmed(stage, name) for name in everybody)
    taken: set[int] = set()
    hits: dict[str, list[int]] = {}
    for name in everybody:
        hits[name] = damage.flip_bodies(armed.store(name), below, FLIPS, armed.chance, spared=taken)
        taken.update(hits[name])
    for name in everybody:
        served_by(stage, name)
    for name in everybody:
        _made_good(armed, before, name, hits[name])
    return f"{FLIPS} bodies of each replica, all repaired from each other (seed {armed.seed})"


def bits_while_down(stage: BrokerStage) -> str:
    """In confirmed bytes of a broker that is down: the start must not take what is left for all
    there was, and what lies below what a start reads is for the slow look through all bytes to
    find.
    """
    armed = Armed(stage)
    for of_master in (True, False):
        victim = stage.master() if of_master else stage.slaves()[0]
        below = _confirmed(stage, victim)
        with armed.killed(victim):
            damage.flip_bodies(armed.store(victim), below, FLIPS, armed.chance)
        stage.cluster.whole()
        stage.flows(20)
        _equal_again(stage)
    return (
        f"{FLIPS} bodies of the master and of a slave while down, each made good (seed "
        f"{armed.seed})"
    )


def _equal_again(stage: BrokerStage) -> None:
    def equal() -> bool:
        try:
            return stage.compare_logs() > 0
        except NotAsItShouldBe:
            return False

    wait_until(equal, "the replicas' logs are equal again", MADE_GOOD_WITHIN_S)


def _confirmed(stage: BrokerStage, name: str) -> int:
    status = stage.cluster.view.broker_status(stage.cluster.process(name)["address"])
    if not status:
        raise NotAsItShouldBe(f"{name} does not say how far it is")
    return int(status["confirm_offset"])


def _made_good(armed: Armed, before: dict[str, int], name: str, hit: list[int]) -> None:
    def repaired() -> bool:
        said = armed.said(before, name)
        return all(f"message at {offset} {REPAIRED}" in said for offset in hit)

    wait_until(repaired, f"{name} has repaired {hit}", MADE_GOOD_WITHIN_S)
    said = armed.said(before, name)
    if not all(f"message at {offset} " in said and REFUSED in said for offset in hit):
        raise NotAsItShouldBe(f"{name} did not report {hit}")


def served_by(stage: BrokerStage, name: str) -> int:
    """Everything in the run's topic as that broker serves it; NotAsItShouldBe for a body that is
    not as sent.
    """
    return asyncio.run(_read_from(stage, stage.cluster.process(name)["address"]))


async def _read_from(stage: BrokerStage, address: str) -> int:
    found = 0
    async with WorkloadClient(
        stage.cluster.name_servers, stage.load.topic, "chaos-look", timeout_ms=2_000
    ) as client:
        for queue in range(QUEUES):
            at = 0
            while True:
                try:
                    pulled = await client.pull(queue, at, suspend_ms=0, address=address)
                except CallFailed:
                    break  # not served is as it should be
                for message in pulled.messages:
                    if sequence_of(message.fields.body) is None:
                        raise NotAsItShouldBe(
                            f"{address} served a damaged message at {message.physical_offset}"
                        )
                found += len(pulled.messages)
                if pulled.next_offset <= at:
                    break
                at = pulled.next_offset
    return found


# -- other files -----------------------------------------------------------------------------------


def queue_bits(stage: BrokerStage) -> str:
    """In queue entries, of the master while it runs and of each replica while it is down:
    everything must be read.
    """
    armed = Armed(stage)
    master = stage.master()
    damage.flip_entries(armed.store(master), stage.load.topic, FLIPS, armed.chance)
    served_by(stage, master)
    for name in stage.brokers:
        with armed.killed(name):
            damage.flip_entries(armed.store(name), stage.load.topic, FLIPS, armed.chance)
        stage.cluster.whole()
        stage.flows(20)
    return (
        f"{FLIPS} entries of the master alive and of each replica while down, one after the other "
        f"(seed {armed.seed})"
    )


def index_bits(stage: BrokerStage) -> str:
    """What is found by key afterwards has that key; what is not found may be the price of the
    damage.
    """
    told = file_bits("index/*", stage)
    keys = range(0, stage.load.acknowledged, max(1, stage.load.acknowledged // KEYS_ASKED))
    return f"{told}; {asyncio.run(found_by_key(stage, keys))} of {len(keys)} keys found, none wrong"


async def found_by_key(stage: BrokerStage, keys: Sequence[int]) -> int:
    """How many keys the master finds a message for; NotAsItShouldBe for one that has another
    key.
    """
    found = 0
    async with WorkloadClient(
        stage.cluster.name_servers, stage.load.topic, "chaos-look", timeout_ms=2_000
    ) as client:
        for key in keys:
            wanted = {
                "topic": stage.load.topic,
                "key": str(key),
                "maxNum": "10",
                "beginTimestamp": "0",
                "endTimestamp": str(1 << 60),
            }
            answer = await client.call(
                client.master(), RemotingCommand.request(RequestCode.QUERY_MESSAGE, wanted)
            )
            sequences = (
                {sequence_of(message.fields.body) for message in decode_messages(answer.body)}
                if answer.code == 0
                else set()
            )
            if not sequences <= {key}:
                raise NotAsItShouldBe(f"asked for key {key}, the answer is {sequences}")
            found += bool(sequences)
    return found


def file_bits(what: str, stage: BrokerStage) -> str:
    """In a small file beside the log, of the master and of a slave in turn."""
    armed, hit = Armed(stage), []
    for of_master in (True, False):
        victim = stage.master() if of_master else stage.slaves()[0]
        with armed.killed(victim):
            for path in _files(armed.store(victim), what):
                damage.flip_used(path, FLIPS, armed.chance)
                hit.append(path.name)
        stage.cluster.whole()
        stage.flows(20)
    return f"{FLIPS} bits of {', '.join(sorted(set(hit)))}, master and slave (seed {armed.seed})"


def _files(store: Path, what: str) -> list[Path]:
    found = [path for path in sorted(store.glob(what)) if path.is_file() and damage.used_part(path)]
    if not found:
        raise NotAsItShouldBe(f"no {what} in {store}")
    return found


def identity_bits(stage: BrokerStage) -> str:
    """It cannot be made anew: the broker does not start and says why, also when the file now speaks
    of another broker.
    """
    armed = Armed(stage)
    victim = stage.slaves()[0]
    path = armed.store(victim) / "brokerIdentity"
    sound = path.read_bytes()
    stranger = sound.replace(SET.encode(), b"broker-b")
    torn = b"#".join(sound.split(b"#")[:2])
    for content in (torn, stranger, bytes(byte ^ 0x80 for byte in sound)):
        before = armed.log_now(victim)
        with armed.kept_off(victim):
            armed.wait_dead(stage.kill(victim))
            path.write_bytes(content)
            armed.open_gate(victim)
            armed.must_say(before, victim, "identity file" if content is stranger else path.name)
            stage.flows()
            path.write_bytes(sound)
        stage.cluster.whole()
    return (
        f"{victim} refused to start with a torn identity file, one of another set and one that is "
        "not text, until it was put back"
    )


def _line(name: str, text: str, strike: object, **more: object) -> Line:
    return Line(name, text, strike, armed=True, **more)  # type: ignore[arg-type]


LINES = (
    _line("folder-slave", "the data folder of a slave is gone", partial(folder_gone, False)),
    _line(
        "folder-master",
        "the data folder of the master is gone while it is down",
        partial(folder_gone, True),
    ),
    _line("folder-alive", "the data folder of a slave is removed while it runs", folder_gone_alive),
    _line("tail", "the end of the log is torn, zeros or garbage", tail_damaged),
    _line(
        "bits-down",
        "flipped bits in confirmed messages of a broker that is down",
        bits_while_down,
        settings=SCRUBBED,
    ),
    _line("bits-queue", "flipped bits in queue entries", queue_bits),
    _line("bits-index", "flipped bits in the key index", index_bits),
    _line("bits-checkpoint", "flipped bits in the checkpoint", partial(file_bits, "checkpoint")),
    _line(
        "bits-epochs", "flipped bits in the epoch file", partial(file_bits, "epochFileCheckpoint")
    ),
    _line("bits-identity", "flipped bits in the identity file", identity_bits, runs=1),
    _line(
        "bits-slave",
        "flipped bits in confirmed messages of a slave",
        partial(bits_of_one, False),
        settings=SCRUBBED,
    ),
    _line(
        "bits-master",
        "flipped bits in confirmed messages of the master",
        partial(bits_of_one, True),
        settings=SCRUBBED,
    ),
    _line(
        "bits-all",
        "flipped bits in confirmed messages of every replica, each its own",
        bits_of_all,
        settings=SCRUBBED,
    ),
)
