"""What the judge of `make interop ARGS=go-features` says of the lines of its program."""

from __future__ import annotations

import pytest

from tests.interop.go_features import COUNT, LARGE, WANTED, judged, missing, read

WAITED_MS = 6_000


def sound() -> list[str]:
    """Everything was sent at 1,000 ms and came 6 s later, what is asked for again came again."""
    features = {feature for feature, _ in WANTED.values()} | {"oneway"}
    lines = [f"sent {feature} {n} 1000" for feature in features for n in range(COUNT)]
    for who, (_, is_for_it) in WANTED.items():
        for n in filter(is_for_it, range(COUNT)):
            more = LARGE if who == "plain" and n % 10 == 0 else "0"
            lines += [f"got {who} {n} {1000 + WAITED_MS} {more}"] * (3 if who == "retry" else 1)
    lines += [f"got oneway {n} 1001 0" for n in range(3)]
    lines += [f"asked {n}" for n in range(2, COUNT, 3)]
    lines += [f"replied {n}" for n in range(COUNT // 2, COUNT)]
    return [*lines, "admin listed true", "admin queues 3", "admin gone true", "waits", "done"]


def wrong_rows(lines: list[str]) -> list[str]:
    return [row.what for row in judged(read(lines)) if not row.ok]


def test_what_is_as_it_should_be_passes_every_row() -> None:
    said = read(sound())
    assert (wrong_rows(sound()), missing(said), said.state) == ([], {}, "done")


@pytest.mark.parametrize("who", sorted(WANTED))
def test_a_message_that_a_consumer_lacks_is_seen(who: str) -> None:
    _, is_for_it = WANTED[who]
    number = next(filter(is_for_it, range(COUNT)))
    lines = [line for line in sound() if not line.startswith(f"got {who} {number} ")]
    assert missing(read(lines)) == {who: {number}}
    assert f"{who}: lost" in wrong_rows(lines)


@pytest.mark.parametrize(
    "line, row",
    [
        ("got transactions 1 9000 0", "transactions: lost"),
        ("got tags 2 9000 0", "tags: lost"),
        ("got dead 1 9000 0", "dead: lost"),
        ("got delayed 3 5999 0", "delayed by 5000 ms: came earlier"),
        ("got timed 3 4999 0", "timed by 4000 ms: came earlier"),
        ("got plain 10 9000 bytes=19999", "compressed bodies that changed"),
        ("admin queues 4", "the client's administrator"),
        ("failed send-plain 3", "calls of rocketmq-client-go v2.1.2 that failed"),
    ],
)
def test_a_line_that_should_not_be_there_is_seen(line: str, row: str) -> None:
    assert wrong_rows([*sound(), line]) == [row]


@pytest.mark.parametrize(
    "gone, row",
    [
        ("asked 2", "transactions left open: asked about"),
        ("replied 39", "requests with their reply"),
        ("sent orderly 5 1000", "orderly: lost"),
    ],
)
def test_a_line_that_is_missing_is_seen(gone: str, row: str) -> None:
    assert row in wrong_rows([line for line in sound() if line != gone])


def test_order_and_number_of_repetitions_are_seen() -> None:
    lines = sound()
    orderly = [at for at, line in enumerate(lines) if line.startswith("got orderly ")]
    first, later = orderly[0], orderly[4]
    lines[first], lines[later] = lines[later], lines[first]
    assert wrong_rows(lines) == ["orderly: keys out of order"]
    lines = sound()
    lines.remove(next(line for line in lines if line.startswith("got retry 3 ")))
    assert wrong_rows(lines) == ["retry: came less often than asked for"]
