"""Is the log still the one that was folded here, and does it still arrive? (design S11 and D7)

Responsible for: judging what was seen at each look, and the words with the way out. One odd look
proves nothing: after a change of Kafka's leader an answer may be old for a moment; a log made anew
stays anew.
Refuses to know: Kafka, threads, and who acts on the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from events.topics import COMMANDS_TOPIC

BEHIND_FOR_S = 5.0
"""The end offset of a new leader of the topic may stand behind for some seconds."""
ODD_FOR_S = 1.0
ODD_LOOKS_MIN = 3
LOOKS_APART_MAX_S = 5.0
"""After a longer pause of Kafka or of this process, waiting is counted anew."""
RESTORE = (
    "restore it (`regent controller rebuild --from-delta` makes it anew from the landed tables) "
    "or, for a new cluster, remove this controller's data folder"
)


@dataclass(frozen=True, slots=True)
class Look:
    """What Kafka said of the commands topic, and how far this controller is.

    `topic_id` is "" when the topic does not exist, None when that was not learnt; `same` says
    whether the record that was the newest applied one at the look before is still in its place
    (None: not learnt).
    """

    first: int
    end: int
    applied: int
    """Offset of the next record the fold waits for."""
    position: int
    """Offset behind the record that Faust handed over last."""
    delivered: int
    """How many records Faust has handed over, repeats included."""
    topic_id: str | None = None
    same: bool | None = None


class LogHealth:
    """Judges one look after the other; the first reason is final."""

    def __init__(self, topic_id: str | None, watchdog_s: float, now_s: float) -> None:
        self._topic_id = topic_id
        self._watchdog_s = watchdog_s
        self._odd: dict[str, tuple[int, float]] = {}
        self._delivered = 0
        self._waits_since = self._looked_at = now_s

    def judge(self, look: Look, now_s: float) -> str | None:
        """Why this controller must stop; None while all is well."""
        return self._whole(look, now_s) or self._arrives(look, now_s)

    def judge_read(self, broken: str | None, now_s: float) -> str | None:
        """The same for a direct read of the next records: `broken` is its reason, None when it
        went well. A hole that several reads found is one.
        """
        return broken if self._stays("read", broken is not None, now_s, ODD_FOR_S) else None

    def _whole(self, look: Look, now_s: float) -> str | None:
        known, named = self._topic_id, look.topic_id
        self._topic_id = known or named
        gone = None if named is None else not named
        anew = named != known if known and named else None
        changed = None if look.same is None else not look.same
        found = (
            ("gone", gone, ODD_FOR_S, f"{COMMANDS_TOPIC} was deleted: {RESTORE}"),
            (
                "anew",
                anew,
                ODD_FOR_S,
                (
                    f"{COMMANDS_TOPIC} was deleted and made anew (topic id {named}, here {known}): "
                    f"{RESTORE}"
                ),
            ),
            ("first", look.first > 0, ODD_FOR_S, beginning_lost(look.first)),
            (
                "changed",
                changed,
                ODD_FOR_S,
                (
                    f"{COMMANDS_TOPIC} was cut and written anew: a record that was applied here is "
                    f"another one now; {RESTORE}"
                ),
            ),
            ("behind", look.end < look.applied, BEHIND_FOR_S, too_short(look.end, look.applied)),
        )
        return next(
            (reason for what, odd, for_s, reason in found if self._stays(what, odd, now_s, for_s)),
            None,
        )

    def _stays(self, what: str, odd: bool | None, now_s: float, for_s: float) -> bool:
        """Whether it was odd at several looks over that time; what was not learnt (None) neither
        counts nor clears.
        """
        if odd is None:
            return False
        if not odd:
            self._odd.pop(what, None)
            return False
        looks, since = self._odd.get(what, (0, now_s))
        self._odd[what] = (looks + 1, since)
        return looks + 1 >= ODD_LOOKS_MIN and now_s - since >= for_s

    def _arrives(self, look: Look, now_s: float) -> str | None:
        """Faust must hand over something while the log is longer than what it has handed over."""
        away = now_s - self._looked_at > LOOKS_APART_MAX_S
        if look.delivered != self._delivered or look.position >= look.end or away:
            self._waits_since = now_s
        self._delivered, self._looked_at = look.delivered, now_s
        waited_s = now_s - self._waits_since
        if waited_s <= self._watchdog_s:
            return None
        return (
            f"the log ends at {look.end}, but Faust has handed over nothing behind offset "
            f"{look.position - 1} for {waited_s:.0f} s: it is stuck; starting again helps"
        )


def beginning_lost(first: int) -> str:
    """The text for a log whose first records are gone."""
    return (
        f"{COMMANDS_TOPIC} begins at offset {first}: its beginning was deleted; set "
        f"retention.ms=-1, retention.bytes=-1, cleanup.policy=delete and {RESTORE}"
    )


def too_short(end: int, applied: int) -> str:
    """The text for a log that ends below what was applied."""
    return (
        f"{COMMANDS_TOPIC} ends at offset {end}, but {applied} records were applied here: it was "
        f"cut or made anew; {RESTORE}"
    )
