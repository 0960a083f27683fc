"""The send that nearly every producer makes: 310 in its usual form, read in one go.

Responsible for: recognising it, and what `sending.request` would make of it (a property test holds
both equal). Refuses to know: what is done with it; everything unusual is left to the long way,
which also words every refusal.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from brokers.remoting.fields import FORWARDED_FOR
from brokers.service.sending.request import MARK_LEVEL, MARK_POP, MARK_TIMER, MARK_TRANSACTION

# Digits that fit 64 bits whatever they are.
DIGITS_MAX = 18
QUEUE_DIGITS_MAX = 9

_UNIQUE, _UNIQUE_WITHIN = "UNIQ_KEY\x01", "\x02UNIQ_KEY\x01"


class UsualSend(Struct, gc=False):
    """A single message without transaction, delay level or flags, that waits for the replicas and
    brings its unique key. `timed`: it may ask for a time of delivery.
    """

    topic: str
    queue_id: int
    born_ms: int
    properties: str
    unique_key: str
    timed: bool = False


def usual_send(ext: Mapping[str, str]) -> UsualSend | None:
    """None: let the long way look at it."""
    get = ext.get
    properties, born, queue, queues = get("i"), get("g"), get("e"), get("d")
    if (
        not properties
        or not born
        or not queue
        or not queues
        or get("f") != "0"
        or get("h") != "0"
        or get("j", "0") != "0"
        or get("m", "false") != "false"
        or "a" not in ext
        or "c" not in ext
        or FORWARDED_FOR in ext
        or not (digits := born + queue + queues).isdecimal()
        or not digits.isascii()
        or len(born) > DIGITS_MAX
        or len(queues) > DIGITS_MAX
        or len(queue) > QUEUE_DIGITS_MAX
        or MARK_LEVEL in properties
        or MARK_TRANSACTION in properties
        or MARK_POP in properties
        or ("WAIT\x01" in properties and "WAIT\x01true" not in properties)
    ):
        return None
    topic = get("b")
    if topic is None:
        return None
    start = len(_UNIQUE)
    if not properties.startswith(_UNIQUE):
        at = properties.find(_UNIQUE_WITHIN)
        if at < 0:
            return None
        start += at + 1
    if properties.find(_UNIQUE, start) >= 0:  # readers take the last of two
        return None
    end = properties.find("\x02", start)
    unique_key = properties[start:] if end < 0 else properties[start:end]
    if not unique_key:
        return None
    timed = MARK_TIMER in properties
    return UsualSend(topic, int(queue), int(born), properties, unique_key, timed)
