"""What the doctor says of a set that replicates by majority."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN
from infra.doctor.majority_sets import judged

COMMANDS = Commands(local=Path("/d"), runs=True)


def member(**changes: Any) -> dict[str, Any]:
    return {"name": "a-2", "follows": True, "behind": 0, "store_refusal": None, **changes}


def one_set(**changes: Any) -> dict[str, Any]:
    return {"leader": "a-1", "size": 3, "answering": 3, "members": [member()], **changes}


def test_a_leader_whom_all_follow_is_well() -> None:
    assert [one.verdict for one in judged(one_set(), COMMANDS)] == [OK]


@pytest.mark.parametrize(
    ("seen", "verdict", "says"),
    [
        ({"leader": None, "answering": 1}, FAIL, "no leader, 1 of its 3 members answer"),
        ({"answering": 2}, WARN, "2 of the 3 members"),
        ({"members": [member(follows=False)]}, WARN, "does not follow a-1"),
        ({"members": [member(store_refusal="full")]}, FAIL, "takes nothing onto its disk: full"),
        ({"members": [member(behind=2 << 20)]}, WARN, "lacks 2097152 bytes"),
    ],
)
def test_trouble_is_named_with_a_way_out(seen: dict[str, Any], verdict: str, says: str) -> None:
    (found,) = judged(one_set(**seen), COMMANDS)
    assert found.verdict == verdict and says in found.text
    assert found.command == "regent status --dir /d"
