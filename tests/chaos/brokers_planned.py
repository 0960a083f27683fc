"""What an operator does on purpose, under load: no send may fail. And a topic whose first master
dies at once.
"""

from __future__ import annotations

from tests.chaos.broker_stage import BrokerStage
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.line import Line
from tests.chaos.network import CONTROLLERS
from tests.support.local_cluster import regent, wait_until


def done(stage: BrokerStage, *words: str) -> str:
    """The last line of a verb that must succeed. It runs where controllers do: brokers take a
    hand-over from no stranger.
    """
    place = stage.network.prefix(CONTROLLERS) if stage.network else ()
    done = regent(*words, "--dir", str(stage.cluster.folder.root), prefix=place)
    if done.returncode:
        raise NotAsItShouldBe(
            f"regent {' '.join(words)}: {(done.stderr or done.stdout).strip()[:200]}"
        )
    return done.stdout.strip().splitlines()[-1]


def rolling_restart(stage: BrokerStage) -> str:
    return done(stage, "restart", "--rolling")


def transfer(stage: BrokerStage) -> str:
    before = stage.master()
    told = done(stage, "controller", "transfer", "broker-a")
    if stage.new_master(before) == before:
        raise NotAsItShouldBe(f"{before} is master still: {told}")
    stage.flows()
    return told


def new_topic_and_master_killed(stage: BrokerStage) -> str:
    """In odd runs when its first send is answered, in even ones when it is on its way."""
    mark, when = (b"A ", "answered") if stage.number % 2 else (b"S ", "sent")
    master = stage.master()
    load = stage.start_load("new")

    def marked() -> bool:
        return load.ledger_path.exists() and any(
            line.startswith(mark) for line in load.ledger_path.read_bytes().splitlines()
        )

    wait_until(marked, f"the first send to a new topic is {when}", poll_s=0.0005)
    stage.wait_restarted(stage.kill(master))
    return f"{master} killed when the first send was {when}, {stage.master()} leads"


LINES = (
    Line(
        "rolling",
        "regent restart --rolling: every broker anew, the master last and after a hand-over; no "
        "send fails",
        rolling_restart,
        calm=True,
    ),
    Line(
        "transfer",
        "regent controller transfer: the master hands over; no send fails",
        transfer,
        calm=True,
    ),
    Line(
        "new-topic",
        "a topic created and its master killed at once",
        new_topic_and_master_killed,
        runs=4,
    ),
)
