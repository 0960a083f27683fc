"""Names of pop consumption: retry topics in both forms, the revive topic, its group
(PROTOCOL 4.9).

Responsible for: which topic a copy goes to, and what a topic's name says. Refuses to know: whether
a topic exists.

The first form joins group and topic with `_`, which both may contain: no name of it can be taken
apart again. Who needs the group keeps it beside the name.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.service.tables.topics import RETRY_PREFIX, REVIVE_PREFIX, name_refusal

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
REVIVE_QUEUES = 8
ORDERED_REVIVE_QUEUE = 999
"""In a handle: popped in order, no check point."""
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Kinds of topic, as handles and info strings name them."""


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


def retry_topic(group: str, topic: str, kind: str = RETRY_V1) -> str:
    """Where copies of what the group did not acknowledge go."""
    return f"{RETRY_PREFIX}{group}{'+' if kind == RETRY_V2 else '_'}{topic}"


def kind_of(topic: str) -> str:
    """What a topic is by its name. Group names have no `+`."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(kind: str, group: str, topic: str) -> str:
    """The topic that a handle of this kind is about; `topic` is the one that was asked for."""
    return topic if kind == NORMAL else retry_topic(group, topic, kind)


def shared_retry_name(group: str, topic: str, reads: Callable[[str, str], bool]) -> str | None:
    """Why copies for this group would be taken by another one, None when they would not: in the
    first form `a_b` and `c` have the name of `a` and `b_c`. `reads(group, topic)`: that group reads
    that topic.
    """
    words = f"{group}_{topic}".split("_")
    for at in range(1, len(words)):
        other, name = "_".join(words[:at]), "_".join(words[at:])
        if other != group and reads(other, name):
            return f"its retry topic would be that of group {other}, which reads topic {name}"
    return None


def no_retry_name(group: str, topic: str) -> str | None:
    """Why copies for this group could have no topic, None when they can."""
    refused = name_refusal(retry_topic(group, topic))
    return None if refused is None else f"its retry topic cannot be: {refused}"
