"""What is no valid entry of a table is told once."""

from brokers.service.tables.left_out import NAMES_TOLD_MAX, LeftOutEntries


def test_what_was_left_out_before_somebody_listens_is_told_then_and_once() -> None:
    said, told = [], []
    left_out = LeftOutEntries(said.append)
    left_out.note("topics.json", "file", ("my.topic",))
    left_out.report_to(lambda kind, fields: told.append((kind, fields)))
    first = {"table": "topics.json", "source": "file", "count": 1, "names": ("my.topic",)}
    assert (
        told == [("TableEntriesLeftOut", first)]
        and ("topics.json (file): 1 entries are not valid") in said[0]
    )
    left_out.note("topics.json", "h:1", ("my.topic",))
    left_out.note("consumerOffset.json", "h:1", ())
    assert len(told) == 1
    left_out.note("topics.json", "h:1", tuple("." * 999 for _ in range(NAMES_TOLD_MAX + 5)))
    assert told[1][1]["count"] == NAMES_TOLD_MAX + 5
    assert [len(name) for name in told[1][1]["names"]] == [255] * NAMES_TOLD_MAX
