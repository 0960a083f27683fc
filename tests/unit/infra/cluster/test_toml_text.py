import tomllib
from pathlib import Path

import pytest

from infra.cluster import toml_text


def test_what_is_written_is_what_is_read() -> None:
    values = {
        "text": ('a "quoted" \\ back'),
        "number": 3,
        "switch": True,
        "list": ["x", "y"],
        "kafka": {"bootstrap.servers": "h:1"},
    }
    assert tomllib.loads(toml_text.dumps({**values, "none": None, "path": Path("/a b")})) == {
        **values,
        "path": "/a b",
    }


def test_a_value_that_no_file_of_ours_holds_is_refused() -> None:
    with pytest.raises(TypeError):
        toml_text.dumps({"x": 1.5})
