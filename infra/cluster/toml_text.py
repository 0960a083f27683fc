"""Write the small TOML that our configuration files use: texts, numbers, switches, lists of texts,
tables of texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path


def dumps(values: Mapping[str, object]) -> str:
    """TOML text; None is left out, tables come last. TypeError for what TOML files of ours never
    hold.
    """
    lines, tables = [], []
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            body = "".join(f"{_key(k)} = {_value(v)}\n" for k, v in value.items())
            tables.append(f"\n[{_key(key)}]\n{body}")
        else:
            lines.append(f"{_key(key)} = {_value(value)}\n")
    return "".join(lines + tables)


def _key(key: object) -> str:
    text = str(key)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"no TOML for {type(value).__name__}")
