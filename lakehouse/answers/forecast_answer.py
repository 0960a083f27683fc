"""The answer to "what if the master died this second?", from the tables.

Responsible for the state as far as it has landed, for the rows that a forecast rests on, for words,
and for saying what the answer cannot know. Refuses to know the winner (`forecast`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from events.topics import COMMANDS_TOPIC
from lakehouse import wording
from lakehouse.answers.acting.outlook import outlook, outlook_text
from lakehouse.answers.acting.sets import known_set
from lakehouse.answers.decisions import require_set
from lakehouse.answers.forecast import forecast
from lakehouse.answers.last_evidence import EVENTS, TABLES, last_words
from lakehouse.answers.majority import outlook as majority
from lakehouse.answers.majority.groups import known_group, told_of_group
from lakehouse.errors import NotLanded
from lakehouse.gold import progress
from lakehouse.gold.fold import GoldFold
from lakehouse.gold.now import gold_now
from lakehouse.gold.specs import ACTING_PERIODS, FAILOVERS, MAJORITY_TERMS
from lakehouse.tables.bronze_log import BronzeLog
from lakehouse.tables.delta import milliseconds, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BY_NAME

LIMITS = (
    (
        "It speaks of the moment at which the newest decision landed; who lives and how long each "
        "log is, is what was last told, see the times."
    ),
    (
        "How long it takes is what it took before, with the clients and the load of then; time in "
        "which nobody sent is in it."
    ),
    (
        "A Java master counts as all-ack here: without allAckInSyncStateSet=true and "
        "minInSyncReplicas=2 acknowledged messages are at risk too."
    ),
)
"""What the answer cannot know; it is part of the answer."""


def forecast_of(lake: Lake, broker_name: str) -> dict[str, Any]:
    """The next master, how long it would take, what is at risk; of a set without controllers who
    would act, of a group that replicates by majority who may lead. Times in ms, sizes in bytes.

    Raises `NotLanded` for a set that is not known, `LakehouseError` when history cannot be read or
    folded.
    """
    require_set(lake, broker_name)
    group = known_group(told_of_group(lake, broker_name))
    if group is not None:
        terms = gold_now(lake, [MAJORITY_TERMS], broker_name).rows(MAJORITY_TERMS)
        return majority.outlook(broker_name, group, terms)
    fold = _newest(lake)
    led = fold.folder.state.live_set(broker_name) is not None  # one that was released is not
    known = None if led else known_set(lake, broker_name)
    if known is not None:
        periods = gold_now(lake, [ACTING_PERIODS], broker_name).rows(ACTING_PERIODS)
        return outlook(broker_name, known, periods)
    failovers = gold_now(lake, [FAILOVERS]).rows(FAILOVERS)
    words = last_words({name: _rows(lake, name, broker_name) for name in TABLES})
    model = forecast(fold.folder.state, broker_name, words, failovers)
    return {"offset": fold.folder.offset, "at_ms": fold.at_ms, **model, "limits": list(LIMITS)}


def forecast_text(model: Mapping[str, Any]) -> str:
    """The answer for people."""
    if "without_controllers" in model:
        return outlook_text(model)
    if "by_majority" in model:
        return majority.outlook_text(model)
    master = (
        "no master"
        if model["master"] is None
        else (f"broker {model['master']} leads in epoch {model['master_epoch']}")
    )
    head = (
        f"{model['broker_name']}: {master}, SyncStateSet "
        f"{wording.members(model['sync_state_set'])}, after command {model['offset']} of "
        f"{wording.moment(model['at_ms'])} UTC"
    )
    rows = [_replica_cells(one) for one in model["replicas"]]
    table = wording.text_table(
        ("broker", "in the set", "lives", "epoch", "log ends at", "told (UTC)", "by"), rows
    )
    return "\n".join(
        [
            head,
            table,
            "",
            *_succession_lines(model["succession"]),
            "",
            *_recovery_lines(model["recovery"]),
            "",
            _risk_line(model["risk"]),
            "",
            *(f"* {limit}" for limit in model["limits"]),
        ]
    )


def _newest(lake: Lake) -> GoldFold:
    """The state after the last landed command, folded on from where gold stands."""
    fold = progress.fold_of(progress.read_progress(lake))
    log = BronzeLog(lake, COMMANDS_TOPIC)
    later = log.landed(fold.folder.next_offset)
    for _ in fold.changes((one.offset, one.timestamp_ms, one.value) for one in later):
        pass
    return fold


def _rows(lake: Lake, name: str, broker_name: str) -> list[dict[str, Any]]:
    """The set's rows of a silver table; a command's have the log's time as `at_ms`. None when the
    table is not there.
    """
    filters = [("broker_name", "=", broker_name)]
    try:
        found = read(lake, BY_NAME[f"silver/{name}"], filters=filters)
    except NotLanded:
        return []
    rows = found.to_pylist()
    if name not in EVENTS:
        for row, at_ms in zip(rows, milliseconds(found["log_timestamp"]), strict=True):
            row["at_ms"] = at_ms or row["issued_at_ms"]
    return list(rows)


def _replica_cells(one: Mapping[str, Any]) -> tuple[object, ...]:
    lives = {None: "never heard", True: "yes", False: "no"}[one["alive"]]
    known = ["-" if one[name] is None else one[name] for name in ("epoch", "max_offset")]
    unclean = "" if one["clean"] else " (unclean)"
    return (
        one["broker_id"],
        f"{'yes' if one['in_set'] else 'no'}{unclean}",
        lives,
        *known,
        wording.moment(one["told_ms"]),
        one["told_by"] or "-",
    )


def _succession_lines(steps: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for step in steps:
        died = " and ".join(f"broker {one}" for one in step["died"])
        if step["winner"] is None:
            yield f"if {died} died: nobody could be elected ({step['refusal']})"
            continue
        others = ", ".join(
            (f"{one['broker_id']} {one['verdict']}")
            for one in step["candidates"]
            if not one["chosen"]
        )
        leads = (
            f"broker {step['winner']} would lead, set {wording.members(step['sync_state_set'])} "
            f"{wording.labels(step['labels'])}"
        ).rstrip()
        yield f"if {died} died: {leads} (others: {others})"


def _recovery_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    found = [
        (
            one["kind"],
            one["n"],
            f"this {one['of']}",
            *(
                wording.duration(one[f"{name}_ms"])
                for name in ("shortest", "median", "p95", "longest")
            ),
        )
        for one in rows
    ]
    if not found:
        return ["no failover of this cluster was measured yet"]
    head = ("master was", "failovers", "of", "shortest", "median", "p95", "longest")
    return [
        "from the last message of the old to the first acknowledged of the new master:",
        wording.text_table(head, found),
    ]


def _risk_line(risk: Mapping[str, Any]) -> str:
    acknowledged, unsent = (
        "not known" if risk[name] is None else f"{risk[name]} B"
        for name in ("acknowledged_bytes", "unacknowledged_bytes")
    )
    return (
        f"at risk: acknowledged messages {acknowledged}, not yet acknowledged {unsent} "
        f"({risk['why']})"
    )
