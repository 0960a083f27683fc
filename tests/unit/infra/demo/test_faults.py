"""What the demo knows of the set before it hits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster.data_folder import DataFolder
from infra.cluster.running import DemoCluster, SetView
from infra.demo import faults
from infra.problems import Problem

WITHOUT = SetView(None, None, 1, (), 1, (1, 2), 1, "c1", "127.0.0.1:1")
WHOLE = SetView(1, "127.0.0.1:2", 2, (1, 2), 2, (1, 2), 1, "c1", "127.0.0.1:1")


class Told(DemoCluster):
    """Answers come in this order, the last one again and again."""

    def __init__(self, root: Path, *answers: SetView | None) -> None:
        super().__init__(DataFolder(root), lambda: None)
        self._answers = list(answers)

    def view(self) -> SetView | None:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def test_a_question_that_is_not_answered_is_asked_again(tmp_path: Path) -> None:
    assert faults.require_view(Told(tmp_path, None, WITHOUT, WHOLE)) == WHOLE


def test_a_set_that_has_no_master_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "VIEW_LIMIT_S", 0.0)
    with pytest.raises(Problem, match="names a master"):
        faults.require_view(Told(tmp_path, WITHOUT))
