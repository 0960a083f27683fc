"""What RocketMQ 5.3.3 makes of filters, and what ours make of the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.service.filters.compiled import compiled, evaluator
from brokers.service.filters.java_values import NotComparable
from brokers.service.filters.lexer import BadExpression
from brokers.service.filters.parser import parse
from brokers.service.filters.tree import Condition, java_text
from brokers.store.log.properties import encode_properties

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases.jsonl").read_text("utf-8").splitlines()
]
REFUSED = [case for case in CASES if "refused" in case]
TAKEN = [case for case in CASES if "refused" not in case]


def test_the_recording_holds_both() -> None:
    assert len(REFUSED) > 300 and len(TAKEN) > 300


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["filter"])
def test_a_filter_is_refused_in_the_same_words(case: dict[str, Any]) -> None:
    with pytest.raises(BadExpression) as error:
        parse(case["filter"])
    assert str(error.value) == case["refused"]


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case["filter"])
def test_a_filter_is_read_and_gives_the_same(case: dict[str, Any]) -> None:
    tree = parse(case["filter"])
    assert java_text(tree) == case["tree"]
    assert [value(tree, one) for one in case["properties"]] == case["values"]
    matches = compiled(case["filter"]).matches
    delivered = [matches(encode_properties(one)) for one in case["properties"]]
    assert delivered == [value == "true" for value in case["values"]]


def value(tree: Condition, properties: dict[str, str]) -> str:
    text = b"\x02%b\x02" % encode_properties(properties)
    try:
        found = evaluator(tree)(text)
    except NotComparable:
        return "exception"
    return "unknown" if found is None else str(found).lower()
