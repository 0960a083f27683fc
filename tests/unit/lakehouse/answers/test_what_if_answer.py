"""What if, asked of a generated history of which every blow is known."""

from collections import Counter
from pathlib import Path

import pytest

from events.broker_events import HeartbeatGap
from events.codec import decode
from lakehouse.answers.what_if import ADDED, AVOIDED, EARLIER
from lakehouse.answers.what_if_answer import LIMITS, silences, time_of, what_if, what_if_text
from lakehouse.answers.what_if_rules import Timers
from lakehouse.errors import NotLanded
from lakehouse.tables.lake import Lake
from tests.support.generated_history import GeneratedHistory, generate
from tests.support.generated_lake import land_generated
from tests.support.landed_log import lake_in, land

HISTORY = generate(1_200, 3, seed=5)
BLOWS = Counter(blow.kind for blow in HISTORY.blows)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return land_generated(tmp_path_factory.mktemp("what-if"), HISTORY)


def gaps(history: GeneratedHistory) -> list[HeartbeatGap]:
    records = (decode(data) for partition in history.events for data in partition)
    return [one for one in records if isinstance(one, HeartbeatGap)]


def results(
    lake: Lake, timers: Timers, policy: str = "recorded"
) -> tuple[Counter[str], dict[str, int]]:
    model = what_if(lake, timers, policy)
    return Counter(one["result"] for one in model["incidents"]), model["totals"]


def test_silences_are_those_that_controllers_reported(lake: Lake) -> None:
    found = silences(lake)
    assert sum(map(len, found.values())) == len(gaps(HISTORY)) > 50
    assert set(found) == set(HISTORY.sets)


def test_half_the_timeout_halves_what_silence_costs(lake: Lake) -> None:
    found, sums = results(lake, Timers(5_000))
    assert found[EARLIER] == BLOWS["silent"] > 10
    assert sums["elections"] == len(HISTORY.blows) - BLOWS["handed over"]
    saved_ms = sum(
        one["won_ms"]
        for one in what_if(lake, Timers(5_000), "recorded")["incidents"]
        if one["result"] == EARLIER
    )
    assert saved_ms == 5_000 * BLOWS["silent"]


def test_a_long_timeout_waits_until_every_silent_master_is_back(lake: Lake) -> None:
    found, sums = results(lake, Timers(60_000))
    assert found[AVOIDED] == BLOWS["silent"]
    assert sums["unavailable_instead_ms"] > sums["unavailable_ms"]


def test_a_short_timeout_calls_for_elections_that_nobody_needed(lake: Lake) -> None:
    long_enough = [one for one in gaps(HISTORY) if not one.was_gone and one.gap_ms > 4_500]
    found, _ = results(lake, Timers(4_500))
    assert 0 < found[ADDED] <= len(long_enough)


def test_unclean_elections_answer_at_once_whom_nobody_could_follow(lake: Lake) -> None:
    found, sums = results(lake, Timers(), "unclean")
    assert found[ADDED] > 0 and found[ADDED] == found[AVOIDED]
    assert (
        sums["at_risk_instead_bytes"] > sums["at_risk_bytes"]
        and sums["unavailable_instead_ms"] < sums["unavailable_ms"]
    )


def test_the_answer_in_words_has_its_limits_in_it(lake: Lake) -> None:
    text = what_if_text(what_if(lake, Timers(60_000), "recorded"))
    assert f"{BLOWS['silent']} avoided" in text and "the master was" not in text
    assert all(limit in text for limit in LIMITS)
    same = what_if_text(what_if(lake, Timers(), "recorded"))
    assert same.startswith("nothing would have been different")


def test_a_window_by_time_or_offset(lake: Lake) -> None:
    from_ms = time_of(lake, offset=600)
    assert (
        from_ms == HISTORY.commands_ms[600]
        and time_of(lake, at_ms=7) == 7
        and time_of(lake) is None
    )
    assert from_ms is not None
    offsets = [one["offset"] for one in what_if(lake, Timers(), "longest", from_ms)["incidents"]]
    assert offsets == [
        one["offset"]
        for one in what_if(lake, Timers(), "longest")["incidents"]
        if one["offset"] >= 600
    ]
    with pytest.raises(NotLanded, match="command 1200 has not landed: last 1199"):
        time_of(lake, offset=1_200)


def test_where_nothing_has_landed_and_where_no_silences_are_kept(tmp_path: Path) -> None:
    empty = lake_in(tmp_path)
    land(empty, [])
    with pytest.raises(NotLanded):
        what_if(empty, Timers(), "longest")
    assert silences(lake_in(tmp_path / "no tables")) == {}
