"""A TOML file with flags over it: what holds, and what is said when it cannot be used."""

import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from events.config_file import ConfigError, checked, kafka_texts, load_config


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    count: int = 1


def test_flags_win_over_the_file_and_none_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('name = "file"\ncount = 2\n')
    assert load_config(Model, path, {"name": "flag", "count": None}) == Model(name="flag", count=2)
    assert load_config(Model, None, {"name": "flag"}) == Model(name="flag")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"name =", "is not TOML"),
        (b"\xff", "is not TOML"),
        (b'name = "a"\ncolour = 1', "colour"),
        (b"count = 1", "name"),
        (None, "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_one_line_that_names_the_file(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        load_config(Model, path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_byte_order_mark_and_lines_of_windows_are_read_over(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "file"\r\ncount = 2\r\n')
    assert load_config(Model, path) == Model(name="file", count=2)


def test_a_name_that_stands_twice_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('name = "a"\nname = "b"\n')
    with pytest.raises(ConfigError, match=r"this name has a value already \(at line 2"):
        load_config(Model, path)


def test_kafka_settings_become_texts_and_anything_else_is_left_to_the_model() -> None:
    assert kafka_texts({"a": True, "b": False, "c": 7, "d": "x"}) == {
        "a": "true",
        "b": "false",
        "c": "7",
        "d": "x",
    }
    assert kafka_texts("no table") == "no table"


@pytest.mark.parametrize(("content", "said"), [
    ('name = "a"\ncoumt = 1', "coumt is not known here; did you mean count?"),
    ('name = "a"\nNAME = "b"', "NAME is not known here"),
    ("count = 1", "name or theirName is missing"),
    ('name = "a"\ncount = "x"', "count: Input should be a valid integer"),
])  # fmt: skip
def test_what_is_wrong_is_told_under_the_names_that_a_file_may_use(content: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Model, "x.toml", tomllib.loads(content), None, {"theirName": "name"})
    assert str(caught.value).startswith(f"x.toml: {said}")


def test_a_flag_that_is_wrong_is_not_blamed_on_the_file() -> None:
    with pytest.raises(ConfigError, match="flags: count: "):
        checked(Model, "x.toml", {"name": "a"}, {"count": "x"})
