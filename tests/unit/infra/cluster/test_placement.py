import json
from pathlib import Path

import pytest

from infra.cluster.placement import Place, place_of, read_places
from infra.problems import EXIT_USAGE, Problem


def test_what_is_said_of_a_process_goes_over_what_is_said_of_its_kind() -> None:
    places = {
        "broker": {"host": "10.0.0.1", "prefix": ["nice"], "config": {"a": 1, "b": 1}},
        "broker-a-2": {"host": "10.0.0.2", "config": {"b": 2}},
    }
    assert place_of(places, "broker", "broker-a-2") == Place(
        "10.0.0.2", ("nice",), {"a": 1, "b": 2}
    )
    assert place_of(places, "broker", "broker-a-1") == Place(
        "10.0.0.1", ("nice",), {"a": 1, "b": 1}
    )
    assert place_of(places, "controller", "controller-1") == Place(None, (), {})


@pytest.mark.parametrize("text", ["", "[]", '{"broker": 1}', '{"broker": {"hots": "h"}}'])
def test_a_file_of_another_form_is_wrong_usage(tmp_path: Path, text: str) -> None:
    (tmp_path / "places").write_text(text)
    with pytest.raises(Problem) as caught:
        read_places(tmp_path / "places")
    assert caught.value.exit_code == EXIT_USAGE


def test_a_file_is_read_as_it_stands(tmp_path: Path) -> None:
    places = {"broker-a-1": {"host": "h", "prefix": ["p"], "config": {"c": 1}}}
    (tmp_path / "places").write_text(json.dumps(places))
    assert read_places(tmp_path / "places") == places
