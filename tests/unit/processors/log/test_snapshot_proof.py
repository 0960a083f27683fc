"""What proves a snapshot, and what is said of one that is not proven."""

import pytest
from msgspec.structs import replace

from events.outcomes import Outcome
from processors.log.snapshot_proof import doubt
from tests.support.controller_rig import Rig


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 1)
    return Rig().lead().three()


def published(rig: Rig) -> Outcome:
    return next(one for one in rig.published if one.command_offset == rig.folder.offset)


def test_the_state_that_was_published_is_believed(rig: Rig) -> None:
    assert doubt(rig.folder.copy(), published(rig)) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"digest": bytes(32)}, "another history"),
        ({"state_digest": b""}, "no digest of the state"),
        ({"state_digest": bytes(32)}, "its state is not the one that was published"),
    ],
)
def test_anything_else_is_refused_with_its_reason(
    rig: Rig, changes: dict[str, bytes], said: str
) -> None:
    assert said in (doubt(rig.folder, replace(published(rig), **changes)) or "")
    assert "no outcome" in (doubt(rig.folder, None) or "")
