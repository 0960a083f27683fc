"""Stock mqadmin about topics, groups, clients, messages and settings of a Regent cluster.

Responsible for: a cluster through the `regent` command line, a Java producer and a push consumer on
it, one list of commands with what each has to say. Refuses to know: how a broker comes to its
answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.interop.java_client import Consumer, Producer, first_message
from tests.interop.ledger import acknowledged_of
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

TOPIC, GROUP = "Tools", "interop-Tools"
MESSAGES = 400
# The consumer tells its places every 5 s, the first time after 10.
SEEN_WITHIN_S = 40.0
_FAILED = re.compile(r"Exception\b|CODE: *\d+|Not found")
SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Command:
    """`says`: patterns that have to be in its output. `fails`: it is refused, and says so."""

    words: tuple[str, ...]
    says: tuple[str, ...] = ()
    fails: bool = False


def run(stage: Stage) -> list[Row]:
    """Every command on a cluster under way."""
    with own_cluster(stage) as cluster:
        return _with_clients(stage, cluster)


def _with_clients(stage: Stage, cluster: LocalCluster) -> list[Row]:
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    consumer = Consumer(stage, name_server, TOPIC)
    producer = Producer(stage, name_server, TOPIC)
    try:
        producer.wait(lambda rows: len(acknowledged_of(rows)) >= MESSAGES, "sending")
        consumer.wait_for(producer.rows())
        rows = [_played(stage, name_server, one) for one in _commands(cluster)]
        rows += [_played(stage, name_server, one) for one in _settings(cluster)]
    finally:
        producer.stop()
        producer.end()
        consumer.stop()
    rows += [_played(stage, name_server, one) for one in _without_clients(cluster)]
    return rows


def _commands(cluster: LocalCluster) -> list[Command]:
    view = cluster.whole()
    master = view.master_address or ""
    return [
        Command(("topicList",), (TOPIC, f"%RETRY%{GROUP}")),
        Command(("topicList", "-c"), (rf"{TOPIC} .*{GROUP}",)),
        Command(("topicRoute", "-t", TOPIC), ('"brokerName":"', '"readQueueNums":')),
        Command(("topicStatus", "-t", TOPIC), (r"#QID[\s\S]+ 0 +0 +\d+ +20\d\d-",)),
        Command(("topicClusterList", "-t", TOPIC), ("regent",)),
        Command(("consumerProgress", "-g", GROUP), (rf"{TOPIC} [\s\S]*Consume Diff Total: \d+",)),
        Command(("consumerProgress",), (rf"{GROUP} +1 +V5_3_3 +PUSH +CLUSTERING",)),
        Command(("consumerConnection", "-g", GROUP), (r"V5_3_3", rf"{TOPIC}|{GROUP}", "PASSIVELY")),
        Command(("consumerStatus", "-g", GROUP), ("Rebalance OK", "Same subscription")),
        Command(("producerConnection", "-g", "interop-producer", "-t", TOPIC), ("V5_3_3",)),
        Command(("producer", "-b", master), ("interop-producer",)),
        Command(("brokerConsumeStats", "-b", master), (rf"{TOPIC} +{GROUP}", "Diff Total:")),
        Command(("queryCq", "-t", TOPIC, "-q", "0", "-i", "1", "-c", "3", "-b", master), ("max:",)),
        Command(("getConsumerConfig", "-g", GROUP), (r"retryMaxTimes *= *16",)),
        Command(("statsAll", "-t", TOPIC), (rf"{TOPIC} +{GROUP}",)),
        Command(("clusterList",), (r"regent +broker-a +0 +\S+ +V5_3_3",)),
        Command(
            ("brokerStatus", "-b", master),
            (r"putTps +: \d+\.\d+ ", r"msgPutTotalTodayNow +: [1-9]"),
        ),
        Command(("queryMsgByKey", "-t", TOPIC, "-k", "7"), (r"#Message ID[\s\S]+[0-9A-F]{32}",)),
        Command(
            ("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "0", "-o", "1"),
            (r"Store Host:", r"Queue Offset: +1"),
        ),
        Command(("consumeMessage", "-t", TOPIC, "-c", "3"), (r"KEYS=\d+",)),
    ]


def _settings(cluster: LocalCluster) -> list[Command]:
    """Configuration of brokers and name server, keys and values, cleaning."""
    master = ("-b", cluster.whole().master_address or "")
    reserved = ("updateBrokerConfig", *master, "-k", "fileReservedTime", "-v")
    done = "update broker config success"
    order = ("updateOrderConf", "-t", TOPIC, "-m")
    return [
        Command((*reserved, "48"), (done,)),
        Command(("getBrokerConfig", *master), (r"fileReservedTime +=  48", "flushDiskType")),
        Command((*reserved, "soon"), fails=True),
        Command(
            ("updateBrokerConfig", *master, "-k", "brokerConfigPath", "-v", "x"),
            ("16",),
            fails=True,
        ),
        Command(("updateBrokerConfig", *master, "-k", "nobodyKnows", "-v", "x"), (done,)),
        Command(("getNamesrvConfig",), (r"orderMessageEnable +=  false",)),
        Command(("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"), ("success",)),
        Command(("updateKvConfig", "-s", "N", "-k", "k", "-v", "v"), ("success",)),
        Command(("deleteKvConfig", "-s", "N", "-k", "k"), ("success",)),
        Command((*order, "put", "-v", "broker-a:4"), ("success",)),
        Command((*order, "get"), (r"broker-a:4",)),
        Command((*order, "delete"), ("success",)),
        Command(("cleanExpiredCQ", *master), ("success",)),
        Command(("cleanUnusedTopic", *master), ("success",)),
        Command(("deleteExpiredCommitLog", *master), ("success",)),
        Command(("getColdDataFlowCtrInfo", *master), ("cold reads",), fails=True),
        Command(("brokerStatus", *master), (r"timerReadBehind +: \d+", r"putLatency99 +: \d")),
    ]


def _without_clients(cluster: LocalCluster) -> list[Command]:
    return [
        Command(("wipeWritePerm", "-b", "broker-a"), (r"OK, [1-9]\d*",)),
        Command(("topicRoute", "-t", TOPIC), ('"perm":4',)),
        Command(("addWritePerm", "-b", "broker-a"), (r"OK, [1-9]\d*",)),
        Command(("exportConfigs", "-c", "regent", "-f", str(cluster.folder.root)), ("success",)),
        Command(
            ("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "-1"), (r"broker-a +0 +\d+",)
        ),
        Command(("skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC), (r"broker-a",)),
        Command(("updateTopic", "-c", "regent", "-t", "Made"), ("success",)),
        Command(("updateSubGroup", "-c", "regent", "-g", "Made"), ("success",)),
        Command(("deleteSubGroup", "-c", "regent", "-g", "Made", "-r", "true"), ("success",)),
        Command(("getConsumerConfig", "-g", "Made"), ()),
        Command(("topicStatus", "-t", "nobody"), fails=True),
        Command(("consumerConnection", "-g", "nobody"), fails=True),
    ]


def _played(stage: Stage, name_server: str, command: Command) -> Row:
    text = stage.java.mqadmin(*command.words, "-n", name_server).text
    missing = [one for one in command.says if not re.search(one, text)]
    failed = bool(_FAILED.search(text))
    good = not missing and failed is command.fails
    words = " ".join(command.words)
    if good:
        return Row(f"mqadmin {words[:60]}", f"{len(text.splitlines())} lines", True)
    stage.say(f"mqadmin {words}:\n{text[-3_000:]}")
    what = f"without {missing}" if missing else "failed" if failed else "did not fail"
    return Row(f"mqadmin {words[:60]}", f"{what}: {text[-SHOWN_CHARS:]}", False)
