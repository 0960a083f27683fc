"""Every alteration of a lake that somebody thought of is found, and named in words: which table,
which offsets, what to do.

A history lands, is checked, made into gold, proven and anchored; then a copy of it is altered in
one way, and the verbs are asked that should find it. "Careful" ones put sizes in Delta's log right,
as somebody does who knows Delta.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.cli import main
from lakehouse.gold import specs
from lakehouse.gold.progress import GOLD_PROGRESS
from lakehouse.invariants.kept import CHECKED
from lakehouse.landing.anchoring import Anchoring
from lakehouse.layers import silver
from lakehouse.proof.known_names import KNOWN
from lakehouse.proof.verify import verify_here
from lakehouse.proof.witnesses import checked
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import listed_files
from lakehouse.tables.losses import Loss
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, LOSSES, TableSpec
from tests.support.generated_history import GeneratedHistory, generate
from tests.support.generated_lake import batch_of, lake_at, land_batch
from tests.support.made_gold import bring_up, job_of
from tests.support.mock_kafka import mock_kafka
from tests.support.tampered_lake import tamper, with_sizes_put_right, with_statistics

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
HISTORY: GeneratedHistory = generate(60, 1, 5)
LAST = len(HISTORY.commands) - 1
AT = 21
FIRST_BATCH = 48
"""Commands that land first; the rest of all topics comes in a second batch."""
PARTITION = max(range(len(HISTORY.events)), key=lambda n: len(HISTORY.events[n]))
EVENTS_LAST = len(HISTORY.events[PARTITION]) - 1
EVENTS_FIRST_BATCH = EVENTS_LAST - 9

Rows = list[dict[str, Any]]
Alter = Callable[[Lake], None]

CHECK, CHECK_ALL = ("lake", "check"), ("lake", "check", "--from-start")
VERIFY, VERIFY_ALL = ("verify",), ("verify", "--from-start")
LAYERS, ANCHORS, KAFKA = ("verify", "--layers"), ("verify", "--anchors"), ("verify", "--kafka")
BACK = "put it back from a copy"
FILES_BACK = "put the files back from a copy"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake as it was, and its anchors beside it."""
    home = tmp_path_factory.mktemp("altered")
    lake = lake_at(home / "tables", HISTORY.cluster_id)
    delta.ensure_tables(lake)
    records = list(HISTORY.records())
    early = [one for one in records if _is_early(one[0], one[1], one[2])]
    late = [one for one in records if not _is_early(one[0], one[1], one[2])]
    for number, batch in enumerate((early, late)):
        for place in sorted({one[:2] for one in batch}):
            land_batch(lake, as_told([one for one in batch if one[:2] == place]), number)
    bring_up(job_of(lake))
    assert checked(lake).exit_code == 0
    assert verify_here(lake).exit_code == 0
    Anchoring(lake, home / "anchors.jsonl").step()
    return home


def as_told(records: list[Any]) -> pa.Table:
    """A batch of a log whose producers say when: the Kafka of these tests knows no other."""
    batch = batch_of(records)
    column = batch.schema.get_field_index("timestampType")
    return batch.set_column(column, "timestampType", pa.array([0] * batch.num_rows, pa.int32()))


def _is_early(topic: str, partition: int, offset: int) -> bool:
    if topic == BROKER_EVENTS_TOPIC:
        return partition != PARTITION or offset < EVENTS_FIRST_BATCH
    return offset < FIRST_BATCH


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    """The log that the lake was landed from."""
    with mock_kafka() as settings:
        producer = Producer(settings)
        for topic, partition, _, at_ms, value in HISTORY.records():
            producer.produce(topic, value, partition=partition, timestamp=at_ms)
        producer.flush()
        yield f"bootstrap.servers={settings['bootstrap.servers']}"


@pytest.fixture
def lake(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(silver, "AHEAD_MAX_MS", 0)  # as some minutes after it has landed
    shutil.copytree(made / "tables", tmp_path / "tables")
    return lake_at(tmp_path / "tables", HISTORY.cluster_id)


def other(at: int, **columns: Any) -> Callable[[Rows], Rows]:
    """Other values in the row of an offset."""
    return lambda rows: [row | columns if row["offset"] == at else row for row in rows]


def without(*offsets: int) -> Callable[[Rows], Rows]:
    return lambda rows: [row for row in rows if row["offset"] not in offsets]


def twice(at: int) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows, next(row for row in rows if row["offset"] == at)]


def swapped(at: int) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        values = {row["offset"]: row["value"] for row in rows}
        there = {at: values[at + 1], at + 1: values[at]}
        return [row | {"value": there.get(row["offset"], row["value"])} for row in rows]

    return change


def flipped(at: int) -> Callable[[Rows], Rows]:
    """One byte of a value."""

    def change(rows: Rows) -> Rows:
        [value] = [row["value"] for row in rows if row["offset"] == at]
        return other(at, value=value[:-1] + bytes([value[-1] ^ 1]))(rows)

    return change


def republished(at: int, **fields: Any) -> Callable[[Rows], Rows]:
    """An outcome that says something else."""

    def change(rows: Rows) -> Rows:
        [value] = [row["value"] for row in rows if row["offset"] == at]
        return other(at, value=encode(replace(decode(value), **fields)))(rows)

    return change


def earlier(at: int) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        [was] = [row["timestamp"] for row in rows if row["offset"] == at]
        return other(at, timestamp=was - timedelta(days=3))(rows)

    return change


def careful(topic: str, at: int, change: Callable[[Rows], Rows], partition: int = 0) -> Alter:
    def alter(lake: Lake) -> None:
        tamper(lake, topic, at, change, partition)
        with_sizes_put_right(lake)

    return alter


def careless(topic: str, at: int, change: Callable[[Rows], Rows]) -> Alter:
    return lambda lake: tamper(lake, topic, at, change)


def all_of(*alterations: Alter) -> Alter:
    def alter(lake: Lake) -> None:
        for one in alterations:
            one(lake)

    return alter


def files(lake: Lake, table: TableSpec, topic: str | None = None) -> list[Path]:
    found = listed_files(lake, table, delta.open_table(lake, table))
    return [one.path for one in found if topic in (None, one.partition.get("topic"))]


def file_removed(table: TableSpec, topic: str | None = None) -> Alter:
    return lambda lake: files(lake, table, topic)[-1].unlink()


def commits(lake: Lake, table: TableSpec) -> list[Path]:
    return sorted((Path(lake.uri(table)) / "_delta_log").glob("*.json"))


def last_commits_removed(table: TableSpec, count: int) -> Alter:
    def alter(lake: Lake) -> None:
        for commit in commits(lake, table)[-count:]:
            commit.unlink()

    return alter


def last_commit(change: Callable[[bytes], bytes]) -> Alter:
    def alter(lake: Lake) -> None:
        commit = commits(lake, BRONZE)[-1]
        commit.write_bytes(change(commit.read_bytes()))

    return alter


def middle_commit_removed(lake: Lake) -> None:
    commits(lake, BRONZE)[2].unlink()


def rewritten(table: TableSpec, change: Callable[[Rows], Rows]) -> Alter:
    """Other rows, as if they had been written so; Delta's log is right about them."""

    def alter(lake: Lake) -> None:
        rows = change(delta.read(lake, table).to_pylist())
        shutil.rmtree(lake.uri(table))
        delta.ensure_table(lake, table)
        delta.append_rows(lake, table, rows)

    return alter


def updated(table: TableSpec, where: str, **columns: str) -> Alter:
    """By a Delta UPDATE."""

    def alter(lake: Lake) -> None:
        assert delta.open_table(lake, table).update(columns, predicate=where)["num_updated_rows"]

    return alter


def deleted(table: TableSpec, where: str) -> Alter:
    """By a Delta DELETE."""

    def alter(lake: Lake) -> None:
        assert delta.open_table(lake, table).delete(where)["num_deleted_rows"]

    return alter


def column(at: int, **columns: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [row | columns if row["log_offset"] == at else row for row in rows]


def proofs_thrown_away(lake: Lake) -> None:
    shutil.rmtree(Path(lake.root) / "proof")


def proofs_made_to_fit(lake: Lake) -> None:
    """All that was altered is what was proven, by what the lake keeps."""
    proofs_thrown_away(lake)
    verify_here(lake)


def alarms_cleared(lake: Lake) -> None:
    """A record is gone, and the check's memory says that all was judged and nothing stands."""
    careful(BROKER_EVENTS_TOPIC, 3, without(3), PARTITION)(lake)
    checked(lake)
    shutil.rmtree(Path(lake.root) / "gold" / "alarms")


def given_to_another_cluster(lake: Lake) -> None:
    """By Delta's log the newest decisions are of somebody else: their file is where it was."""
    commit = commits(lake, DECISIONS)[-1]
    text = commit.read_text("utf-8")
    own = '"partitionValues":{"cluster_id":'
    assert own in text
    commit.write_text(text.replace(f'{own}"{lake.cluster_id}"', f'{own}"somebody"'), "utf-8")


def gold_of_yesterday(lake: Lake) -> None:
    """One table of gold is put back as it was before its last runs."""
    for commit in commits(lake, specs.BROKER_SET_HISTORY)[1:]:
        commit.unlink()


def invented(lake: Lake) -> None:
    """A command behind the end that nobody appended."""
    rows = delta.read(lake, BRONZE, filters=[("topic", "=", COMMANDS_TOPIC)]).to_pylist()
    delta.append_rows(lake, BRONZE, [rows[-1] | {"offset": LAST + 1}])


def whole_lake_of_yesterday(lake: Lake) -> None:
    """Everything is put back as it was before the second batch, what remembers it too."""
    shutil.rmtree(lake.root)
    delta.ensure_tables(lake)
    records = [one for one in HISTORY.records() if _is_early(one[0], one[1], one[2])]
    for place in sorted({one[:2] for one in records}):
        land_batch(lake, as_told([one for one in records if one[:2] == place]), 0)
    bring_up(job_of(lake))
    checked(lake)
    verify_here(lake)


def loss_forged(lake: Lake) -> dict[str, object]:
    """As if the log had dropped it before it landed."""
    noted = Loss(BROKER_EVENTS_TOPIC, PARTITION, EVENT, EVENT, found_ms=1_000)
    return {"cluster_id": lake.cluster_id, **noted.row}


def another_history(lake: Lake) -> None:
    """A whole lake that proves itself, of a cluster of the same name."""
    shutil.rmtree(lake.root)
    delta.ensure_tables(lake)
    told = generate(70, 1, 6)
    for place in sorted({one[:2] for one in told.records()}):
        land_batch(lake, as_told([one for one in told.records() if one[:2] == place]), 0)
    assert checked(lake).exit_code == 0 == verify_here(lake).exit_code


@dataclass(frozen=True)
class Case:
    """What is done, and by which verbs it is found with which words."""

    alter: Alter
    found: dict[tuple[str, ...], tuple[str, ...]]
    quiet: tuple[tuple[str, ...], ...] = field(default=())
    """Verbs whose business it is not: they say that all is well."""


EVENT = 4
COMMAND_ROW, OUTCOME_ROW = f"regent.commands-0 offset {AT}", f"regent.outcomes-0 offset {AT}"
EVENT_ROW = f"regent.broker-events-{PARTITION} offset {EVENT}"
ALL_COMMANDS = f"bronze/records, regent.commands-0 offsets 0 to {LAST}: not what was proven at"
ALL_OUTCOMES = "bronze/records, regent.outcomes-0 offsets 0 to"
ALL_EVENTS = (
    f"bronze/records, regent.broker-events-{PARTITION} offsets 0 to {EVENTS_LAST}: not what"
)
MISMATCH = f"history differs from what was published at offset {AT}; equal up to {AT - 1}"
SIZE = ("bronze/records", "Delta's log says", BACK)
GONE = ("bronze/records", "is gone", BACK)
CUT = ("bronze/records (its last one) is cut or damaged", "or move it away")
ANCHORED = "not what was anchored"
SILVER_AGAIN = "remove the table's folder and the job's checkpoint folder"
GOLD_AGAIN = "run 'regent lake gold --from-start'"
END_AGAIN = "start the landing job without its checkpoint folder"

REVIEWED: dict[str, Case] = {
    "byte of a command": Case(
        careless(COMMANDS_TOPIC, AT, flipped(AT)),
        {
            VERIFY: (MISMATCH, ALL_COMMANDS, FILES_BACK),
            VERIFY_ALL: (MISMATCH,),
            CHECK: SIZE,
            CHECK_ALL: SIZE,
        },
    ),
    "byte of a command, careful": Case(
        careful(COMMANDS_TOPIC, AT, flipped(AT)),
        {
            VERIFY: (MISMATCH, ALL_COMMANDS),
            LAYERS: (COMMAND_ROW, SILVER_AGAIN),
            ANCHORS: (ANCHORED,),
            KAFKA: (f"{COMMAND_ROW}: value is not what the log holds", FILES_BACK),
        },
        quiet=(CHECK,),
    ),
    "parquet file removed": Case(
        file_removed(BRONZE, COMMANDS_TOPIC),
        {VERIFY: (*GONE, "missing in bronze/records"), VERIFY_ALL: GONE, CHECK: GONE},
    ),
    "row of a command dropped": Case(
        careful(COMMANDS_TOPIC, AT, without(AT)),
        {
            VERIFY: (f"missing in bronze/records: {COMMAND_ROW}", ALL_COMMANDS),
            VERIFY_ALL: (f"missing in bronze/records: {COMMAND_ROW}",),
            CHECK: (f"regent.commands-0 offsets {AT} to {AT} never landed", "what to do"),
            CHECK_ALL: (f"offsets {AT} to {AT} never landed",),
        },
    ),
    "two commands swapped": Case(
        careful(COMMANDS_TOPIC, AT, swapped(AT)),
        {
            VERIFY: (MISMATCH, ALL_COMMANDS),
            VERIFY_ALL: (MISMATCH,),
            KAFKA: (f"regent.commands-0 offsets {AT} to {AT + 1}: value is not",),
        },
    ),
    "command row doubled": Case(
        careful(COMMANDS_TOPIC, AT, twice(AT)),
        {
            VERIFY: (f"offset {AT}: landed twice", ALL_COMMANDS),
            VERIFY_ALL: (f"offset {AT}: landed twice",),
            CHECK: (f"regent.commands-0 offsets {AT} landed twice", "what to do"),
            CHECK_ALL: ("landed twice",),
        },
    ),
    "byte of an outcome": Case(
        careful(OUTCOMES_TOPIC, AT, flipped(AT)),
        {VERIFY: (ALL_OUTCOMES,), LAYERS: (OUTCOME_ROW,), KAFKA: (OUTCOME_ROW,)},
    ),
    "outcome row doubled": Case(
        careful(OUTCOMES_TOPIC, AT, twice(AT)),
        {
            VERIFY: (f"{OUTCOME_ROW}: landed twice ({AT})", FILES_BACK),
            VERIFY_ALL: (f"{OUTCOME_ROW}: landed twice",),
            CHECK: (f"regent.outcomes-0 offsets {AT} landed twice", "what to do"),
            CHECK_ALL: ("landed twice",),
        },
    ),
    "two outcomes swapped": Case(
        careful(OUTCOMES_TOPIC, AT, swapped(AT)),
        {
            VERIFY: (ALL_OUTCOMES, "not what was proven", FILES_BACK),
            VERIFY_ALL: (ALL_OUTCOMES,),
            LAYERS: (f"silver/decisions, regent.outcomes-0 offset {AT}: command_offset",),
        },
    ),
    "outcome: publisher, time and phases forged": Case(
        careful(
            OUTCOMES_TOPIC,
            AT,
            republished(AT, publisher="evil", published_at_ms=5, phases={"applied": 7}),
        ),
        {
            VERIFY: (ALL_OUTCOMES, "not what was proven", FILES_BACK),
            VERIFY_ALL: (ALL_OUTCOMES,),
            LAYERS: (f"silver/decisions, {OUTCOME_ROW}: ", "history gives 'evil'"),
            ANCHORS: (ANCHORED,),
        },
        quiet=(CHECK,),
    ),
    "log timestamp of a command three days earlier": Case(
        careful(COMMANDS_TOPIC, AT, earlier(AT)),
        {
            VERIFY: (ALL_COMMANDS, "a timestamp is another one", FILES_BACK),
            VERIFY_ALL: (ALL_COMMANDS,),
            LAYERS: (f"{COMMAND_ROW}: log_timestamp is", SILVER_AGAIN),
            ANCHORS: (ANCHORED,),
            KAFKA: (f"{COMMAND_ROW}: timestamp is not what the log holds",),
        },
    ),
    "byte of a broker event": Case(
        careful(BROKER_EVENTS_TOPIC, EVENT, flipped(EVENT), PARTITION),
        {
            VERIFY: (ALL_EVENTS, FILES_BACK),
            VERIFY_ALL: (ALL_EVENTS,),
            LAYERS: (EVENT_ROW,),
            ANCHORS: (ANCHORED,),
            KAFKA: (f"{EVENT_ROW}: value is not what the log holds",),
        },
    ),
    "row of a broker event dropped": Case(
        careful(BROKER_EVENTS_TOPIC, EVENT, without(EVENT), PARTITION),
        {
            VERIFY: (ALL_EVENTS,),
            VERIFY_ALL: (ALL_EVENTS,),
            CHECK: (f"offsets {EVENT} to {EVENT} never landed",),
            CHECK_ALL: (f"offsets {EVENT} to {EVENT} never landed",),
        },
    ),
    "last commands with all their outcomes taken away": Case(
        all_of(
            careful(COMMANDS_TOPIC, LAST, lambda rows: rows[:-10]),
            careful(OUTCOMES_TOPIC, LAST, lambda rows: rows[:-12]),
        ),
        {
            VERIFY: (f"offsets {LAST - 9} to {LAST}: bronze ends at offset {LAST - 10}", END_AGAIN),
            VERIFY_ALL: ("the end was taken away",),
            CHECK: (f"bronze ends at offset {LAST - 10}", "gold/progress", END_AGAIN),
            CHECK_ALL: (f"bronze ends at offset {LAST - 10}", "proof/check", "proof/names"),
            KAFKA: ("the log holds them", "regent.commands-0"),
        },
    ),
    "last row of commands alone": Case(
        careful(COMMANDS_TOPIC, LAST, lambda rows: rows[:-1]),
        {
            VERIFY: (f"offset {LAST}: bronze ends at offset {LAST - 1}", END_AGAIN),
            CHECK: (f"bronze ends at offset {LAST - 1}", END_AGAIN),
            CHECK_ALL: ("the end was taken away",),
        },
    ),
    "last commit of bronze removed": Case(
        last_commits_removed(BRONZE, 3),
        {
            VERIFY: ("regent.broker-events", "the end was taken away", END_AGAIN),
            VERIFY_ALL: ("the end was taken away",),
            CHECK: ("regent.broker-events", "the end was taken away", END_AGAIN),
        },
    ),
    "last commit cut in the middle": Case(
        last_commit(lambda data: data[: len(data) // 2]),
        {VERIFY: CUT, VERIFY_ALL: CUT, CHECK: CUT, CHECK_ALL: CUT},
    ),
    "a digest in silver": Case(
        rewritten(DECISIONS, column(AT, digest="0" * 64)),
        {LAYERS: (f"silver/decisions, {OUTCOME_ROW}: digest is '0000", SILVER_AGAIN)},
    ),
    "accepted in silver": Case(
        rewritten(DECISIONS, column(AT, accepted=False)),
        {LAYERS: (f"{OUTCOME_ROW}: accepted is False, history gives True",)},
    ),
    "a decision gone from silver": Case(
        rewritten(DECISIONS, lambda rows: [*rows[:AT], *rows[AT + 1 :]]),
        {LAYERS: (f"silver/decisions, {OUTCOME_ROW}: no row", SILVER_AGAIN)},
    ),
    "gold altered by an UPDATE": Case(
        updated(specs.FAILOVERS, "true", unavailable_ms="1"),
        {LAYERS: ("gold/failovers, regent.commands-0 offset", "unavailable_ms is 1", GOLD_AGAIN)},
        quiet=(CHECK, VERIFY),
    ),
    "rows of gold deleted": Case(
        deleted(specs.FAILOVERS, "true"),
        {LAYERS: ("gold/failovers", "the row that history gives is gone", GOLD_AGAIN)},
    ),
}

OWN: dict[str, Case] = {
    "statistics of silver forged, so that questions pass a file over": Case(
        lambda lake: with_statistics(lake, DECISIONS, {"maxValues": {"log_offset": 2}}),
        {VERIFY: ("silver/decisions", "Delta's log says 2", "regent lake maintain --statistics")},
        quiet=(CHECK,),
    ),
    "statistics of gold forged": Case(
        lambda lake: with_statistics(lake, specs.FAILOVERS, {"numRecords": 99}),
        {VERIFY: ("gold/failovers", "Delta's log says 99", "regent lake maintain --statistics")},
        quiet=(CHECK,),
    ),
    "two broker events change places in one partition": Case(
        careful(BROKER_EVENTS_TOPIC, EVENT, swapped(EVENT), PARTITION),
        {VERIFY: (ALL_EVENTS,), LAYERS: (f"regent.broker-events-{PARTITION} offset",)},
        quiet=(CHECK,),
    ),
    "what was altered is what was proven, by what the lake keeps": Case(
        all_of(careful(COMMANDS_TOPIC, AT, earlier(AT)), proofs_made_to_fit),
        {LAYERS: (f"{COMMAND_ROW}: log_timestamp is",), ANCHORS: (ANCHORED, COMMANDS_TOPIC)},
        quiet=(VERIFY,),
    ),
    "another history under the same name": Case(
        another_history,
        {ANCHORS: (ANCHORED, "regent.commands-0"), KAFKA: ("is not what the log holds",)},
        quiet=(VERIFY, CHECK),
    ),
    "the whole lake as it was yesterday": Case(
        whole_lake_of_yesterday,
        {
            ANCHORS: (f"regent.commands-0 offsets {FIRST_BATCH} to {LAST}: bronze ends at",),
            KAFKA: (f"regent.commands-0 offsets {FIRST_BATCH} to {LAST}: the log holds them",),
        },
        quiet=(VERIFY, CHECK, LAYERS),
    ),
    "the last commit made empty": Case(
        last_commit(lambda data: b""),
        {CHECK: ("the end was taken away", END_AGAIN), VERIFY: ("the end was taken away",)},
    ),
    "the last commit cut behind its first line": Case(
        last_commit(lambda data: data[: data.index(b"\n") + 1]),
        {CHECK: ("the end was taken away",), VERIFY: ("the end was taken away",)},
    ),
    "a commit in the middle removed": Case(
        middle_commit_removed,
        {
            VERIFY: ("of bronze/records is gone: put it back from a copy",),
            CHECK: ("of bronze/records is gone: put it back from a copy",),
        },
    ),
    "a file given to another cluster in Delta's log": Case(
        given_to_another_cluster,
        {LAYERS: (f"silver/decisions, regent.outcomes-0 offsets {FIRST_BATCH} to", "no row")},
    ),
    "one table of gold put back": Case(
        gold_of_yesterday, {LAYERS: ("gold/broker_set_history", "is gone", GOLD_AGAIN)}
    ),
    "a command invented behind the end": Case(
        invented, {KAFKA: (f"regent.commands-0 offset {LAST + 1}: the log ends at offset {LAST}",)}
    ),
    "a gap with the check's alarm thrown away": Case(
        alarms_cleared,
        {CHECK: ("offsets 3 to 3 never landed", "what to do"), VERIFY: (ALL_EVENTS,)},
    ),
    "a row of a broker event dropped and its loss noted": Case(
        all_of(
            careful(BROKER_EVENTS_TOPIC, EVENT, without(EVENT), PARTITION),
            lambda lake: delta.append_rows(lake, LOSSES, [loss_forged(lake)]),
        ),
        {
            VERIFY: (ALL_EVENTS, f"noted loss: {EVENT_ROW} never landed"),
            VERIFY_ALL: (ALL_EVENTS,),
            ANCHORS: (ANCHORED,),
            KAFKA: (f"{EVENT_ROW}: the log holds them, bronze not",),
        },
        quiet=(CHECK,),
    ),
    "when a record landed": Case(
        careful(COMMANDS_TOPIC, AT, other(AT, batch=99)),
        {VERIFY: ("landed at another time or in another batch", FILES_BACK)},
        quiet=(CHECK,),
    ),
    "what gold goes on from": Case(
        lambda lake: delta.replace_rows(
            lake,
            GOLD_PROGRESS,
            [delta.read(lake, GOLD_PROGRESS).to_pylist()[0] | {"carry": b'{"masterships":[]}'}],
        ),
        {LAYERS: ("gold/progress, regent.commands-0", "what the next run goes on from")},
    ),
    "a row of silver that no record gives": Case(
        lambda lake: delta.append_rows(
            lake,
            BY_NAME["silver/role_changed"],
            [
                row | {"log_offset": 0, "log_partition": PARTITION}
                for row in delta.read(lake, BY_NAME["silver/role_changed"]).to_pylist()[-1:]
            ],
        ),
        {LAYERS: (f"silver/role_changed, regent.broker-events-{PARTITION} offset 0: a row",)},
    ),
}


def asked(
    words: tuple[str, ...], lake: Lake, made: Path, kafka: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Exit code and all that was said."""
    more = {ANCHORS: [str(made / "anchors.jsonl")], KAFKA: [kafka]}.get(words, [])
    code = main.main([*words, *more, "--tables", lake.root])
    said = capsys.readouterr()
    assert "magic bytes" not in said.out + said.err
    return code, said.out + said.err


def test_nothing_is_found_in_the_lake_as_it_was(
    lake: Lake, made: Path, kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (CHECK, CHECK_ALL, VERIFY, VERIFY_ALL, LAYERS, ANCHORS, KAFKA):
        assert asked(words, lake, made, kafka, capsys)[0] == 0, words


@pytest.mark.parametrize("what", [*REVIEWED, *OWN])
def test_each_alteration_is_found_and_named(
    lake: Lake, made: Path, kafka: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {**REVIEWED, **OWN}[what]
    case.alter(lake)
    for words, expected in case.found.items():
        code, said = asked(words, lake, made, kafka, capsys)
        assert code == 1, f"{words}: {said}"
        assert not [text for text in expected if text not in said], f"{words}: {said}"
    for words in case.quiet:
        code, said = asked(words, lake, made, kafka, capsys)
        assert code == 0, f"{words}: {said}"


def test_the_tables_that_remember_are_those_that_are_asked(lake: Lake) -> None:
    """A case for each of them is above; a new one would need its own."""
    for table in (KNOWN, CHECKED, GOLD_PROGRESS):
        assert delta.count_rows(lake, table)
