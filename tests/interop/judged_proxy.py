"""What a gRPC client behind the proxy was told, beside what it sent: every kind of message, every
consumer, every receipt.

Responsible for: reading GrpcClient's lines, and one row per promise. Pure.
Refuses to know: who started what, and how long it was waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.interop.stage import Row

DEAD_BELOW = 5
DEAD_ATTEMPTS = 2
"""The group `grpc-dead` is set to one retry."""
RECALLED = 5
SHOWN_CHARS = 160


class Sent(NamedTuple):
    """An acknowledged message. `group`, `due_ms`: None without."""

    message_id: str
    group: str | None
    due_ms: int | None


class Got(NamedTuple):
    """A message in a consumer's hands. `pop_ms`, `visible_ms`: the broker's times; `at_ms`: the
    client's.
    """

    number: int
    message_id: str
    attempt: int
    pop_ms: int
    visible_ms: int
    is_intact: bool
    group: str
    at_ms: int


class Done(NamedTuple):
    """An acknowledgement (`ack`) or a new time (`change`), and until when it was out of sight."""

    what: str
    visible_ms: int
    outcome: str


@dataclass(slots=True)
class Said:
    """The client's lines, by what they say."""

    sent: dict[str, dict[int, Sent]] = field(default_factory=dict)
    failed: dict[str, dict[int, str]] = field(default_factory=dict)
    got: dict[str, list[Got]] = field(default_factory=dict)
    done: dict[int, list[Done]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    recalled: dict[int, str] = field(default_factory=dict)
    is_at_end: bool = False

    def times(self, consumer: str) -> dict[int, list[Got]]:
        """Each number that this consumer got, oldest first."""
        found: dict[int, list[Got]] = {}
        for one in self.got.get(consumer, ()):
            found.setdefault(one.number, []).append(one)
        return found


def read(lines: Iterable[str]) -> Said:
    """What whole lines say."""
    said = Said()
    for line in lines:
        match line.split(","):
            case ["sent", feature, number, message_id, group, due]:
                said.sent.setdefault(feature, {})[int(number)] = Sent(
                    message_id, None if group == "-" else group, None if due == "-" else int(due)
                )
            case ["failed", feature, number, *what]:
                said.failed.setdefault(feature, {})[int(number)] = ",".join(what)
            case ["got", consumer, number, message_id, attempt, pop, visible, intact, group, at]:
                said.got.setdefault(consumer, []).append(
                    Got(
                        int(number),
                        message_id,
                        int(attempt),
                        int(pop),
                        int(visible),
                        intact == "1",
                        group,
                        int(at),
                    )
                )
            case ["did", number, what, visible, *outcome]:
                said.done.setdefault(int(number), []).append(
                    Done(what, int(visible), ",".join(outcome))
                )
            case ["asked", number, _]:
                said.asked.add(int(number))
            case ["recalled", number, *what]:
                said.recalled[int(number)] = ",".join(what)
            case ["end"]:
                said.is_at_end = True
    return said


def is_committed(number: int) -> bool:
    """0 and 1 of four are ended at once, 2 and 3 when they are asked about."""
    return number % 4 in (0, 2)


@dataclass(frozen=True, slots=True)
class Reads:
    """A consumer, what it reads of, and which of it."""

    feature: str
    wanted: Callable[[int], bool] = lambda _: True


CONSUMERS: Mapping[str, Reads] = {
    "all": Reads("normal"),
    "sql": Reads("normal", lambda n: n > 5 and n % 2 == 0),
    "tags": Reads("normal", lambda n: n % 3 != 2),
    "simple": Reads("normal"),
    "dead": Reads("normal", lambda n: n < DEAD_BELOW),
    "fifo": Reads("fifo"),
    "delay": Reads("delay", lambda n: n % RECALLED != RECALLED - 1),
    "transaction": Reads("transaction", is_committed),
}
COMES_AGAIN = ("simple", "dead")
REFUSED = {
    "normal-to-fifo": "message type",
    "fifo-to-delay": "message type",
    "delay-to-normal": "message type",
    "nowhere": "route",
}
"""What is sent to a topic of another kind, or to none, and a word of how that is refused."""


def has_all(said: Said) -> bool:
    """Nothing is left to wait for, but for what should never come."""
    return (
        said.is_at_end
        and all(not _missing(said, name, reads) for name, reads in CONSUMERS.items())
        and not _not_back(said)
        and all(len(each) >= DEAD_ATTEMPTS for each in said.times("dead").values())
    )


def _missing(said: Said, name: str, reads: Reads) -> set[int]:
    wanted = {one for one in said.sent.get(reads.feature, {}) if reads.wanted(one)}
    return wanted - said.times(name).keys()


def _not_back(said: Said) -> list[int]:
    """Left, or left with a new time, and not acknowledged yet."""
    return [
        number
        for number in said.times("simple")
        if number % 4 in (1, 2) and not any(one.what == "ack" for one in said.done.get(number, ()))
    ]


def judged(said: Said, messages: int) -> list[Row]:
    """One row per promise."""
    rows = [_sends(said, feature, messages) for feature in ("normal", "fifo", "delay")]
    rows.append(_sends(said, "transaction", messages))
    rows += [_consumer(said, name, reads) for name, reads in CONSUMERS.items()]
    rows += [_order(said), _not_early(said), _recalls(said), _questions(said)]
    rows += [_receipts(said), _dead(said)]
    rows += [_refusal(said, feature, word) for feature, word in REFUSED.items()]
    return rows


def _sends(said: Said, feature: str, messages: int) -> Row:
    good = len(said.sent.get(feature, {}))
    first = next(iter(said.failed.get(feature, {}).values()), "")
    return Row(f"sends, {feature}", f"{good} of {messages} {first}".strip(), good == messages)


def _consumer(said: Said, name: str, reads: Reads) -> Row:
    sent, times = said.sent.get(reads.feature, {}), said.times(name)
    every = [one for each in times.values() for one in each]
    missing = _missing(said, name, reads)
    strange = [one for one in times if one not in sent or not reads.wanted(one)]
    changed = [
        one
        for one in every
        if not one.is_intact
        or (one.number in sent and one.message_id != sent[one.number].message_id)
    ]
    again = [] if name in COMES_AGAIN else [one for one, each in times.items() if len(each) > 1]
    text = (
        f"{len(times)} came, {len(missing)} missing, {len(strange)} too many, {len(changed)} "
        f"changed, {len(again)} twice"
    )
    return Row(
        f"consumer {name}", text, bool(times) and not (missing or strange or changed or again)
    )


def _order(said: Said) -> Row:
    """Within its group each message comes behind the one that was sent before it."""
    last: dict[str, int] = {}
    wrong = []
    for one in said.got.get("fifo", ()):
        if one.number < last.get(one.group, -1):
            wrong.append(f"{one.number} of {one.group} behind {last[one.group]}")
        last[one.group] = one.number
    groups = {one.group for one in said.sent.get("fifo", {}).values()}
    good = not wrong and last.keys() == groups
    return Row("FIFO, order within groups", f"{len(last)} groups, {_list(wrong)}", good)


def _not_early(said: Said) -> Row:
    sent = said.sent.get("delay", {})
    late = [
        one.at_ms - (sent[one.number].due_ms or 0)
        for one in said.got.get("delay", ())
        if one.number in sent
    ]
    early = [one for one in late if one < 0]
    return Row(
        "DELAY, none early",
        f"{len(early)} early, {max(late, default=0)} ms late at most",
        not early,
    )


def _recalls(said: Said) -> Row:
    wanted = {one for one in said.sent.get("delay", {}) if one % RECALLED == RECALLED - 1}
    good = {one for one, outcome in said.recalled.items() if outcome == "OK"}
    came = wanted & said.times("delay").keys()
    first = next((what for what in said.recalled.values() if what != "OK"), "")
    return Row(
        "DELAY, recalled",
        f"{len(good)} of {len(wanted)}, {len(came)} came all the same {first}".strip(),
        good == wanted and not came and bool(wanted),
    )


def _questions(said: Said) -> Row:
    left = {one for one in said.sent.get("transaction", {}) if one % 4 >= 2}
    unasked = left - said.asked
    others = said.asked - left
    return Row(
        "TRANSACTION, questions",
        f"about {len(left & said.asked)} of {len(left)} that were left open, {len(others)} others",
        bool(left) and not unasked,
    )


def _receipts(said: Said) -> Row:
    """By number: acknowledged; left; its time changed and left; its time changed, acknowledged."""
    wrong = []
    for number, each in sorted(said.times("simple").items()):
        done = said.done.get(number, [])
        wrong += [f"{number}: {one.what} {one.outcome}" for one in done if one.outcome != "OK"]
        is_left = number % 4 in (1, 2)
        if len(each) != 1 + is_left:
            wrong.append(f"{number} came {len(each)} times")
        elif is_left:
            changes = [one.visible_ms for one in done if one.what == "change"]
            due_ms = changes[0] if changes else each[0].visible_ms
            if each[1].pop_ms < due_ms or each[1].attempt != 2:
                wrong.append(
                    f"{number} came {due_ms - each[1].pop_ms} ms early as {each[1].attempt}"
                )
    return Row("simple consumer: left, changed, acknowledged", _list(wrong), not wrong)


def _dead(said: Said) -> Row:
    """Each is tried as often as its group says."""
    found = {one: [each.attempt for each in got] for one, got in said.times("dead").items()}
    wanted = {number: [1, 2] for number in range(DEAD_BELOW)}
    return Row("attempts of what always fails", f"{found}", found == wanted)


def _refusal(said: Said, feature: str, word: str) -> Row:
    found = " ".join(said.failed.get(feature, {}).values())
    good = word in found.lower() and feature not in said.sent
    return Row(f"refused, {feature}", (found or "was not refused")[:SHOWN_CHARS], good)


def _list(wrong: Sequence[str]) -> str:
    return f"{len(wrong)} wrong {'; '.join(wrong[:3])}".strip()
