"""What the doctor says of sets without controllers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.doctor.acting_sets import judged
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN

COMMANDS = Commands(local=Path("/d"), runs=True)


def member(**changes: Any) -> dict[str, Any]:
    usual = {"name": "a-1", "registered": True, "waits_for": None, "behind": 0, "acts": False}
    return {**usual, "store_refusal": None, **changes}


def one_set(**changes: Any) -> dict[str, Any]:
    usual = {"master": "h:1", "acting": None, "registered": [0, 1], "members": [member()]}
    return {"a": {**usual, **changes}}


def test_sets_with_master_and_slaves_are_well() -> None:
    assert [one.verdict for one in judged(one_set(), COMMANDS)] == [OK]


@pytest.mark.parametrize(
    ("seen", "verdict", "says"),
    [
        ({"registered": None}, FAIL, "no name server says"),
        ({"master": None}, FAIL, "nobody acts for it"),
        ({"master": None, "acting": "a-1"}, WARN, "a-1 acts for it"),
        ({"members": [member(waits_for="a link")]}, WARN, "it waits for a link"),
        ({"members": [member(registered=False)]}, WARN, "no name server knows it"),
        ({"members": [member(store_refusal="full")]}, FAIL, "takes nothing onto its disk: full"),
        ({"members": [member(store_refusal="full", acts=True)]}, FAIL, "leaves once more if"),
        ({"members": [member(behind=2 << 20)]}, WARN, "lacks 2097152 bytes"),
    ],
)
def test_trouble_is_named_with_a_way_out(seen: dict[str, Any], verdict: str, says: str) -> None:
    (found,) = judged(one_set(**seen), COMMANDS)
    assert found.verdict == verdict and says in found.text
    assert found.command == "regent status --dir /d"
