"""What people tell a process: a TOML file with flags over it.

Responsible for: reading the file, one clear line for what cannot be used, and the texts Kafka's
clients want.
Refuses to know: which settings there are; each process has a model of its own.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(ValueError):
    """The configuration cannot be used; the text says where and why, in one line."""


def load_config(
    model: type[Model], path: str | Path | None, overrides: Mapping[str, Any] | None = None
) -> Model:
    """The TOML file (None: flags only) with `overrides` over it; overrides of None say nothing.
    Raises ConfigError.
    """
    return checked(model, path, {} if path is None else read_toml(path), overrides)


def read_bytes(path: str | Path) -> bytes:
    """The file. Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """The file's tables, whether or not an editor put a byte order mark before them. Raises
    ConfigError.
    """
    try:
        return tomllib.loads(read_bytes(path).decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        text = str(error).replace("Cannot overwrite a value", "this name has a value already")
        raise ConfigError(f"{path} is not TOML: {text}") from None


def checked(
    model: type[Model],
    path: str | Path | None,
    fields: Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    also: Mapping[str, str] | None = None,
) -> Model:
    """The model of `fields` (what stood in `path`) with `overrides` over them. Raises ConfigError.

    `also`: other names that the file may use, with the field that each stands for.
    """
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    try:
        return model.model_validate({**fields, **given})
    except ValidationError as error:
        raise ConfigError(_in_words(error, model, path, given, also or {})) from None


def _in_words(
    error: ValidationError,
    model: type[BaseModel],
    path: str | Path | None,
    given: Mapping[str, Any],
    also: Mapping[str, str],
) -> str:
    """The first thing that is wrong: where, under which name, and what would be right."""
    first = error.errors()[0]
    name, what = ".".join(map(str, first["loc"])), str(first["msg"]).removeprefix("Value error, ")
    place = "flags" if path is None or (first["loc"] and first["loc"][0] in given) else path
    if first["type"] == "missing":
        others = sorted(other for other, field in also.items() if field == name)
        return f"{place}: {' or '.join([name, *others])} is missing"
    if first["type"] == "extra_forbidden":
        return (
            f"{place}: {name} is not known here{did_you_mean(name, [*model.model_fields, *also])}"
        )
    return f"{place}: {name}: {what}" if name else f"{place}: {what}"


def named_folder(value: object) -> object:
    """A folder's path as it was given. ValueError for an empty one, which would be the folder that
    the process happens to be started in.
    """
    if isinstance(value, str) and not value.strip():
        raise ValueError("names no folder")
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest name as a question, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""


def kafka_texts(value: object) -> object:
    """A table of Kafka client settings with every value as text: TOML has booleans and numbers, the
    clients take texts.
    """
    return {key: _text(one) for key, one in value.items()} if isinstance(value, dict) else value


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
