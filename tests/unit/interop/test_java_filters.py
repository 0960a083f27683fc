"""What the filter scenario makes of the client's lines."""

from tests.interop.java_filters import CONSUMERS, judged, read, wanted_of

COUNT = 40


def good_lines() -> list[str]:
    lines = [f"sent {number}" for number in range(COUNT)] + ["waits"]
    for name, one in CONSUMERS.items():
        if one.refused:
            lines.append(f"refused {name} {one.refused} For more information")
        lines += [f"received {name} {number}" for number in wanted_of(one, COUNT)]
    return lines


def test_lines_are_read_by_what_they_say() -> None:
    said = read(
        ["sent 1", "started g", "waits", "received g 3", "received g 3", "refused h 23 a b"]
    )
    assert (said.sent, said.received, said.refused) == ({1}, {"g": [3, 3]}, {"h": "23 a b"})
    assert said.waits


def test_every_consumer_wants_something_of_its_own() -> None:
    wanted = [frozenset(wanted_of(one, COUNT)) for one in CONSUMERS.values() if not one.refused]
    assert len(set(wanted)) == len(wanted)


def test_what_came_as_it_should_is_good_also_twice() -> None:
    assert all(row.ok for row in judged(read(good_lines()), COUNT))
    again = [line for line in good_lines() if line.startswith("received")]
    assert all(row.ok for row in judged(read(good_lines() + again), COUNT))


def test_a_message_too_few_or_too_many_a_refusal_or_none_is_found() -> None:
    lines = good_lines()
    for wrong in (
        [line for line in lines if line != "received line-49-sql 8"],
        [*lines, "received line-49-sql 7"],
        [*lines, "received line-52-text 1"],
        [*lines, "refused line-47-all 1 not served"],
        [line for line in lines if not line.startswith("refused line-51-null")],
        [line for line in lines if line != "sent 3"],
    ):
        assert [row.ok for row in judged(read(wrong), COUNT)].count(False) == 1
