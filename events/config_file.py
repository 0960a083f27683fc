"""What people tell a process: a TOML file with flags over it.

Responsible for: reading the file, one clear line for what cannot be used, and the texts Kafka's clients want.
Refuses to know: which settings there are; each process has a model of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(ValueError):
    """The configuration cannot be used; the text says where and why, in one line."""


def load_config(model: type[Model], path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> Model:
    """The TOML file (None: flags only) with `overrides` over it; overrides of None say nothing. Raises ConfigError."""
    return checked(model, path, {} if path is None else read_toml(path), overrides)


def read_bytes(path: str | Path) -> bytes:
    """The file. Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """The file's tables. Raises ConfigError."""
    try:
        return tomllib.loads(read_bytes(path).decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def checked(
    model: type[Model], path: str | Path | None, fields: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> Model:
    """The model of `fields` (what stood in `path`) with `overrides` over them. Raises ConfigError."""
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    try:
        return model.model_validate({**fields, **given})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "configuration"
        raise ConfigError(f"{path or 'flags'}: {place}: {first['msg']}") from None


def kafka_texts(value: object) -> object:
    """A table of Kafka client settings with every value as text: TOML has booleans and numbers, the clients take texts."""
    return {key: _text(one) for key, one in value.items()} if isinstance(value, dict) else value


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
