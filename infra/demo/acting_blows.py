"""The blows of the demo of sets without controllers: a master goes and stays away, comes back, and
another one dies and is started anew at once.

Each gives a dictionary for the report. Refuses to know how the report looks and what is judged.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.cluster.acting_running import ActingCluster
from infra.cluster.plan import ACTING_SETS, MASTER_ID
from infra.demo.acting_load import ActingLoad
from infra.features.orders import Orders
from infra.features.use import QUEUES, now_ms
from infra.problems import Problem
from infra.workload.client import DEFAULT_TOPIC, PERM_READ, PERM_WRITE

SET, OTHER_SET = ACTING_SETS
AWAY_S = 18.0
"""Longer than anything waits that the set has when its master dies: levels and times of 6 s at
most, halves that are asked about after 2 to 4 s, popped messages that come back after 6 s.
"""
FLOW, BACKLOG = 30, 20
FLOW_WITHIN_S, ACTS_WITHIN_S, RETURNS_WITHIN_S = 90.0, 60.0, 120.0
ASK_MS = 5_000


def flow(cluster: ActingCluster, load: ActingLoad, what: str) -> None:
    """Messages of every application are acknowledged."""
    since = load.progress()
    cluster.wait(what, lambda: load.has_grown(since, FLOW), FLOW_WITHIN_S)


def make_topics(cluster: ActingCluster, load: ActingLoad) -> None:
    """In both sets: a topic that a first send makes lives in the set that took it, alone. Problem
    when a master refuses.
    """
    masters = [cluster.broker(name, MASTER_ID)["address"] for name in ACTING_SETS]
    asyncio.run(_make_topics(masters, [use.topic for use in load.uses]))
    places = [(name, use.topic) for name in ACTING_SETS for use in load.uses]
    cluster.wait(
        "routes to both sets",
        lambda: all(cluster.leads(*place)[1] for place in places),
        ACTS_WITHIN_S,
    )


async def _make_topics(masters: Sequence[str], topics: Sequence[str]) -> None:
    client = RemotingClient()
    queues = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    kind = {"defaultTopic": DEFAULT_TOPIC, "topicFilterType": "SINGLE_TAG", "order": "false"}
    try:
        for address in masters:
            for topic in topics:
                ext = {"topic": topic, "perm": str(PERM_READ | PERM_WRITE), **queues, **kind}
                request = RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
                answer = await client.call(address, request, ASK_MS)
                if answer.code:
                    raise Problem(f"{address} does not make topic {topic}: {answer.remark}", "")
    except (RemotingError, OSError) as error:
        raise Problem(f"topics cannot be made: {error}", "") from error
    finally:
        await client.close()


def ready(cluster: ActingCluster, load: ActingLoad) -> None:
    """All flow, and every slave could serve what they use."""
    flow(cluster, load, "a flow of messages of every kind")
    cluster.wait("a copy of all topics at every slave", cluster.knows_all_topics, FLOW_WITHIN_S)
    flow(cluster, load, "a flow of messages of every kind")


def master_dies(cluster: ActingCluster, load: ActingLoad, label: str) -> dict[str, Any]:
    """`kill -9` the master of one set, which stays away: its slave is read from, sends and what is
    due go to the other set.
    """
    victim, slave = cluster.broker(SET, MASTER_ID), cluster.broker(SET, MASTER_ID + 1)
    orders = load.orders
    orders.held = True
    cluster.wait("orders that wait to be read", lambda: orders.waiting_in(SET) >= BACKLOG, 60.0)
    at_ms, began = now_ms(), time.monotonic()
    cluster.kill_and_hold(victim["name"])
    killed_ms = now_ms()
    reads_only = (slave["address"], False)
    cluster.wait(
        f"{slave['name']} in the master's place",
        lambda: cluster.leads(SET, orders.topic) == reads_only,
        ACTS_WITHIN_S,
    )
    acting_s = time.monotonic() - began
    orders.held = False
    cluster.wait(
        f"orders read from {slave['name']}",
        lambda: orders.handed_by(slave["address"]) > 0,
        FLOW_WITHIN_S,
    )
    read_s = time.monotonic() - began
    since = {use.what: use.good for use in load.waiting}
    cluster.wait(
        f"messages that {OTHER_SET} takes meanwhile",
        lambda: all(use.good >= since[use.what] + FLOW for use in load.waiting),
        FLOW_WITHIN_S,
    )
    cluster.wait(
        "the time for which the master stays away",
        lambda: time.monotonic() - began >= AWAY_S,
        AWAY_S * 2,
    )
    load.progress()
    return {
        "step": label,
        "kind": "away",
        "set": SET,
        "killed": victim["name"],
        "acts": slave["name"],
        "at_ms": at_ms,
        "killed_ms": killed_ms,
        "acting_route_s": round(acting_s, 2),
        "read_from_slave_s": round(read_s, 2),
        "read_from_slave": orders.handed_by(slave["address"]),
        "away_s": round(time.monotonic() - began, 1),
    }


def master_returns(
    cluster: ActingCluster, load: ActingLoad, away: dict[str, Any], label: str
) -> dict[str, Any]:
    """It starts again, takes over what was done without it, and leads."""
    orders, name = load.orders, away["killed"]
    master, slave = cluster.broker(SET, MASTER_ID), cluster.broker(SET, MASTER_ID + 1)
    kept = places(orders, slave["address"])
    at_ms, began = now_ms(), time.monotonic()
    cluster.start(name)
    leads = (master["address"], True)
    cluster.wait(
        f"{name} in its place, taking sends",
        lambda: cluster.leads(SET, orders.topic) == leads,
        RETURNS_WITHIN_S,
    )
    writable_s = time.monotonic() - began
    cluster.wait(f"{SET} whole", lambda: cluster.is_whole(SET), RETURNS_WITHIN_S)
    ended_ms, whole_s = now_ms(), time.monotonic() - began
    found = places(orders, master["address"])
    flow(cluster, load, "a flow of messages of every kind")
    return {
        "step": label,
        "kind": "returned",
        "set": SET,
        "started": name,
        "at_ms": at_ms,
        "ended_ms": ended_ms,
        "writable_s": round(writable_s, 2),
        "whole_s": round(whole_s, 2),
        "places_kept": kept,
        "places_found": found,
        "takes_over": all(found[queue] >= place for queue, place in kept.items()),
    }


def other_master_dies(cluster: ActingCluster, load: ActingLoad, label: str) -> dict[str, Any]:
    """`kill -9` the other set's master, which its supervisor starts anew at once: the same way
    back, in a moment.
    """
    victim = cluster.broker(OTHER_SET, MASTER_ID)
    at_ms, began = now_ms(), time.monotonic()
    os.kill(victim["pid"], signal.SIGKILL)

    def is_back() -> bool:
        now = cluster.broker(OTHER_SET, MASTER_ID)
        leads = cluster.leads(OTHER_SET, load.orders.topic) == (victim["address"], True)
        return now["pid"] not in (None, victim["pid"]) and now["state"] == "ready" and leads

    cluster.wait(f"{victim['name']} back in its place", is_back, RETURNS_WITHIN_S)
    writable_s = time.monotonic() - began
    cluster.wait(f"{OTHER_SET} whole", lambda: cluster.is_whole(OTHER_SET), RETURNS_WITHIN_S)
    ended_ms = now_ms()
    flow(cluster, load, "a flow of messages of every kind")
    return {
        "step": label,
        "kind": "restarted",
        "set": OTHER_SET,
        "killed": victim["name"],
        "at_ms": at_ms,
        "ended_ms": ended_ms,
        "writable_s": round(writable_s, 2),
    }


def places(orders: Orders, address: str) -> dict[str, int]:
    """Where the group of the orders is in each queue, as that broker says; -1: it does not."""
    return asyncio.run(_places(orders, address))


async def _places(orders: Orders, address: str) -> dict[str, int]:
    client = RemotingClient()
    found = {}
    try:
        for queue in range(QUEUES):
            ext = {"consumerGroup": orders.group, "topic": orders.topic, "queueId": str(queue)}
            request = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, ext)
            answer = await client.call(address, request, ASK_MS)
            found[str(queue)] = int(answer.ext["offset"]) if answer.code == 0 else -1
    except (RemotingError, OSError):
        pass
    finally:
        await client.close()
    return {str(queue): found.get(str(queue), -1) for queue in range(QUEUES)}
