import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.control_history import NAME
from tests.support.error_line import error_line
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, OFFSET = failed_over()
LAST = len(PAST.records) - 1
GOLD_VERBS = [
    ["failovers"],
    ["failovers", NAME],
    ["availability"],
    ["availability", NAME],
    ["timeline", NAME],
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with one failover, without gold tables; nothing writes to it."""
    root = tmp_path_factory.mktemp("tables")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    return root


@pytest.fixture(scope="module")
def with_gold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same history with its gold tables."""
    root = tmp_path_factory.mktemp("gold")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    bring_up(job_of(lake_in(root)))
    return root


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in which nothing has landed."""
    root = tmp_path_factory.mktemp("empty")
    land(lake_in(root), [])
    return root


def said(capsys: pytest.CaptureFixture[str], tables: Path, *words: str) -> str:
    assert main.main([*words, "--tables", str(tables)]) == EXIT_DONE
    return capsys.readouterr().out


def refused(
    capsys: pytest.CaptureFixture[str], tables: Path, *words: str, code: int = EXIT_FAILED
) -> str:
    assert main.main([*words, "--tables", str(tables)]) == code
    return error_line(capsys.readouterr().err)


def test_diff_names_the_decision_and_what_it_changed(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, tables, "diff", "--from", str(OFFSET - 1))
    assert "master_broker_id: 1 -> 3" in text
    assert "ElectMaster" in text
    model = json.loads(
        said(
            capsys, tables, "diff", "--from", "2026-01-01T00:00:02Z", "--to", str(OFFSET), "--json"
        )
    )
    assert (model["from"]["offset"], model["to"]["offset"]) == (2, OFFSET)


def test_failovers_and_availability_are_told_with_how_far_they_speak(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, tables, "failovers")
    assert "1 -> 3" in text and f"up to command {LAST} of " in text
    model = json.loads(said(capsys, tables, "failovers", NAME, "--json"))
    assert [row["new_master"] for row in model["failovers"]] == [3]
    assert model["as_of"]["offset"] == LAST
    assert f"{NAME}: 100 % available" in said(capsys, tables, "availability")
    model = json.loads(said(capsys, tables, "availability", NAME, "--json"))
    assert [day["day"] for day in model["sets"][0]["days"]] == ["2026-01-01"]


def test_a_timeline_is_lines_or_a_picture(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "epoch 2: master 3" in said(capsys, tables, "timeline", NAME)
    out = tmp_path / "set.svg"
    assert str(out) in said(capsys, tables, "timeline", NAME, "--out", str(out))
    classes = [(one.get("class") or "").split() for one in ET.parse(out).iter()]
    assert len([one for one in classes if one[:1] == ["election"]]) == 2
    for number, words in enumerate(([], ["--scheme", "dark"])):
        drawn = tmp_path / f"{number}.png"
        said(capsys, tables, "timeline", NAME, "--out", str(drawn), *words)
        assert drawn.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "0.png").read_bytes() != (tmp_path / "1.png").read_bytes()
    since = f"2026-01-01T00:00:{OFFSET:02d}Z"
    model = json.loads(said(capsys, tables, "timeline", NAME, "--from", since, "--json"))
    assert [one["master_epoch"] for one in model["elections"]] == [2]


@pytest.mark.parametrize("words", GOLD_VERBS)
def test_the_answer_is_the_same_with_gold_tables_and_without(
    tables: Path, with_gold: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folded, kept = (
        json.loads(said(capsys, place, *words, "--json")) for place in (tables, with_gold)
    )
    assert (folded["as_of"].pop("folded"), kept["as_of"].pop("folded")) == (LAST + 1, 0)
    assert folded == kept


@pytest.mark.parametrize(
    "words", [["failovers", "broker-x"], ["availability", "broker-x"], ["timeline", "broker-x"]]
)
def test_an_unknown_set_is_told_with_the_known_ones(
    tables: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"known sets: {NAME}" in refused(capsys, tables, *words)


def test_moments_outside_history_are_said_so(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (f"command {LAST + 1} has not landed: last {LAST}") in refused(
        capsys, tables, "diff", "--from", str(LAST + 1)
    )
    assert ("command 99999999999999999999 has not landed") in refused(
        capsys, tables, "diff", "--from", "0", "--to", "9" * 20
    )
    assert "no command had been taken by" in refused(capsys, tables, "diff", "--from", "1999-01-01")
    assert ("no command had been taken by") in refused(
        capsys, tables, "diff", "--from", "0001-01-01T00:00:00+14:00"
    )
    assert f"{NAME}: nothing from" in said(capsys, tables, "timeline", NAME, "--from", "2031-01-01")


@pytest.mark.parametrize(("words", "told"), [
    (["diff", "--from", "5", "--to", "4"], "Change --from and --to over"),
    (["diff", "--from", "soon"], "--from 'soon' is neither an offset nor a time"),
    (["diff"], "--from"),
    (["timeline"], "SET"),
    (["timeline", NAME, "--from", "5"], "--from 5 is an offset, a timeline goes by time"),
    (["timeline", NAME, "--from", "2026-01-02", "--to", "2026-01-01"], "--from lies behind --to"),
    (["timeline", NAME, "--scheme", "dark"], "--scheme dark is of a picture"),
    (["timeline", NAME, "--out", "set.gif"], "only SVG and PNG are drawn"),
    (["timeline", NAME, "--out", "nowhere/set.svg"], "there is no folder nowhere"),
])  # fmt: skip
def test_wrong_usage_is_one_line(
    tables: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, tables, *words, code=EXIT_USAGE)


@pytest.mark.parametrize("words", [["diff", "--from", "0"], *GOLD_VERBS])
def test_missing_and_empty_tables_are_one_line(
    words: list[str], empty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no tables in" in refused(capsys, tmp_path / "none", *words)
    assert "no table bronze/records" in refused(capsys, tmp_path, *words)
    assert "landed" in refused(capsys, empty, *words)
