"""The verdict says in its first line whether history is proven, and how far."""

from dataclasses import replace

from lakehouse.proof.finding import Finding
from lakehouse.proof.verdict import FINDINGS_SHOWN_MAX, Verdict

GOOD = Verdict(
    verified_up_to=9, digest="ab" * 32, commands=10, compared=10, unproven=0, publishers=["n0"]
)

FOUND = Finding("bronze/records", "regent.commands", 0, 3, 4, "gone", "put it back")


def test_a_proven_history() -> None:
    assert GOOD.exit_code == 0
    assert GOOD.text() == (
        "verified up to offset 9: 10 commands folded, 10 digests published by n0 are "
        "equal, last abababababababab…"
    )
    assert "folded in Spark, 10" in replace(GOOD, spark=True).text()
    beside = replace(GOOD, ranges=3, same_as_proven=5, from_offset=20)
    assert (
        "in 3 ranges" in beside.text()
        and ("5 commands are byte for byte") in beside.text()
        and "below offset 20" in beside.text()
    )


def test_whatever_is_wrong_is_no_success() -> None:
    for wrong in (
        {"first_mismatch": 7},
        {"problems": ["x"]},
        {"missing": [[3, 4]]},
        {"verified_up_to": -1},
        {"findings": [FOUND]},
    ):
        assert replace(GOOD, **wrong).exit_code == 1
        assert replace(GOOD, **wrong).text().startswith("NOT VERIFIED")


def test_what_could_not_be_kept_is_said_and_is_no_failure() -> None:
    found = replace(GOOD, not_kept="read only")
    assert found.exit_code == 0 and "could not be kept: read only" in found.text()


def test_the_first_wrong_offset_and_what_is_missing_are_named() -> None:
    found = replace(GOOD, first_mismatch=4, missing=[[5, 5], [7, 9]])
    assert found.as_dict()["exit_code"] == 1
    assert (
        "at offset 4" in found.text()
        and ("bronze/records: regent.commands-0 offset 5\n") in found.text()
        and "offsets 7 to 9" in found.text()
    )


def test_findings_say_where_and_what_to_do_and_a_mismatch_too() -> None:
    found = replace(GOOD, findings=[FOUND] * (FINDINGS_SHOWN_MAX + 2), notices=["by the way"])
    assert "bronze/records, regent.commands-0 offsets 3 to 4: gone; put it back" in found.text()
    assert "2 more findings" in found.text() and "by the way" in found.text()
    assert found.as_dict()["findings"][0]["first"] == 3
    assert "what to do:" in replace(GOOD, first_mismatch=4).text()
    assert replace(GOOD, notices=["by the way"]).exit_code == 0
