"""CONTRIBUTING's lists, followed for one example each: every step names what is there."""

from __future__ import annotations

import re

import pytest
from source_tree import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
# What each list was done for already, step by step: texts that stand in the file of the step.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "A new rule of the fold": (
        ("processors/fold/rules.py", "doubts_sets"),
        ("processors/fold/decide_doubt.py", "def "),
        ("processors/fold/refusals.py", "class Refusal"),
        ("processors/RULES.md", "### 5.6"),
        ("tests/golden/folds/history-3.jsonl", "record"),
    ),
    "A new command": (
        ("schemas/commands/doubt_broker_set.avsc", "broker_name"),
        ("events/commands.py", "class DoubtBrokerSet"),
        ("events/changes.py", "class SetDoubted"),
        ("processors/fold/decide.py", "DoubtBrokerSet"),
        ("processors/fold/evolve.py", "SetDoubted"),
        ("processors/wire/operator_requests.py", "ADMIN_BUILDERS"),
        ("lakehouse/wording.py", "SetDoubted"),
    ),
    "A new request code of brokers": (
        ("brokers/remoting/codes.py", "REGENT_CLIENTS"),
        ("brokers/service/metadata/client_copy.py", "RequestCode.REGENT_CLIENTS: Served("),
        ("brokers/service/metadata/shared_tables.py", "self.ends, self.clients"),
        ("brokers/PROTOCOL.md", "19016"),
    ),
    "A new setting of brokers": (
        ("brokers/process/config.py", "slave_read_enable"),
        ("brokers/configuration/names.py", '"slave_read_enable"'),
        ("brokers/process/in_force.py", '"slave_read_enable"'),
        ("OPERATING.md", "`slave_read_enable`"),
    ),
    "A new fact that brokers report": (
        ("schemas/broker_events/queue_ends_behind.avsc", "QueueEndsBehind"),
        ("events/broker_events.py", "class QueueEndsBehind"),
        ("brokers/service/metadata/queue_end_copy.py", '"QueueEndsBehind"'),
    ),
    "A new gold table": (
        ("lakehouse/gold/specs.py", "MESSAGES_AT_RISK = GoldTableSpec("),
        ("lakehouse/gold/rows.py", "MESSAGES_AT_RISK"),
        ("lakehouse/gold/progress.py", "BUILDERS_VERSION"),
        ("lakehouse/TABLES.md", "gold/messages_at_risk"),
    ),
    "A new table that no record becomes a row of": (
        ("lakehouse/tables/specs.py", "(*TABLES, LOSSES)"),
        ("lakehouse/tables/losses.py", "def read_losses"),
        ("lakehouse/landing/appends.py", "append(spark, self._lake, LOSSES"),
        ("lakehouse/TABLES.md", "bronze/losses"),
    ),
}


def list_of(title: str) -> str:
    text = CONTRIBUTING.read_text("utf-8")
    return text.split(f"### {title}\n")[1].split("\n###")[0]


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_list_of_steps_was_followed_by_what_is_there(title: str) -> None:
    steps = list_of(title)
    assert re.findall(r"^\d+\. ", steps, re.MULTILINE)
    for path, said in EXAMPLES[title]:
        assert said in (ROOT / path).read_text("utf-8"), (path, said)


def test_every_file_and_folder_of_the_lists_is_there() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[\w.]+)`", CONTRIBUTING.read_text("utf-8"))
    gone = [name for name in named if not (ROOT / name).exists()]
    assert named and not gone
