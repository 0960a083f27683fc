"""What the bytes mean: one documented Avro schema per record, in files beside this module.

Responsible for finding and loading them. Knows nothing of codecs, classes or rules.
"""

import copy
import functools
import importlib.resources
import json
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any

GROUPS = ("types", "commands", "changes", "outcomes", "broker_events")
# Former schemas of records that go on under their name; files are named by fingerprint.
EARLIER = "earlier"
NAMESPACE = "regent"


class SchemaNotFound(KeyError):
    """No schema has that name."""


@functools.cache
def _documents() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return name -> (group, schema as written) of every file."""
    return _documents_in(importlib.resources.files(__name__))


def _documents_in(root: Traversable) -> dict[str, tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for group in GROUPS:
        folder = root.joinpath(group)
        for entry in sorted(
            folder.iterdir() if folder.is_dir() else (), key=lambda item: item.name
        ):
            if entry.name.endswith(".avsc"):
                schema = json.loads(entry.read_text(encoding="utf-8"))
                found[schema["name"]] = (group, schema)
    return found


def load_folder(root: Traversable) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return name -> (group, complete schema) of every file below another folder that is laid out
    like this one.

    What its schemas name and it does not have is taken from here. Raises `ValueError` and
    `KeyError` for a file that is no schema, `OSError` for one that cannot be read.
    """
    own = _documents_in(root)
    known = {**_documents(), **own}
    return {
        name: (group, _inlined(copy.deepcopy(schema), set(), known))
        for name, (group, schema) in own.items()
    }


def names(group: str | None = None) -> tuple[str, ...]:
    """Return the names of all schemas, or of those in one of `GROUPS`, sorted."""
    return tuple(sorted(n for n, (g, _) in _documents().items() if group in (None, g)))


def load(name: str) -> dict[str, Any]:
    """Return the schema `name` complete in itself: named types stand where they are first used.

    The answer is the caller's own copy. Raises `SchemaNotFound`.
    """
    if name not in _documents():
        raise SchemaNotFound(name)
    return _inlined(copy.deepcopy(_documents()[name][1]), set())


def earlier(name: str) -> dict[str, dict[str, Any]]:
    """Return fingerprint -> complete schema of what was released under `name` before, oldest
    first.
    """
    found = {}
    root = importlib.resources.files(__name__).joinpath(EARLIER)
    for entry in sorted(root.iterdir(), key=lambda item: item.name):
        schema = json.loads(entry.read_text(encoding="utf-8"))
        if schema["name"] == name:
            mark = entry.name.removesuffix(".avsc").rpartition("_")[2]
            found[mark] = _inlined(schema, set())
    return found


def released_fingerprints() -> dict[str, str]:
    """Return record name -> fingerprint (16 hex digits) of every released schema."""
    text = importlib.resources.files(__name__).joinpath("fingerprints.json").read_text("utf-8")
    return dict(json.loads(text))


def _inlined(
    schema: Any, seen: set[str], known: Mapping[str, tuple[str, dict[str, Any]]] | None = None
) -> Any:
    """Return `schema` with references to our named types replaced at their first use."""
    known = _documents() if known is None else known
    if isinstance(schema, str):
        name = schema.removeprefix(f"{NAMESPACE}.")
        if name == schema or name in seen:
            return schema
        return _inlined(copy.deepcopy(known[name][1]), seen, known)
    if isinstance(schema, list):
        return [_inlined(branch, seen, known) for branch in schema]
    if schema["type"] in ("record", "fixed"):
        seen.add(schema["name"])
    for field in schema.get("fields", ()):
        field["type"] = _inlined(field["type"], seen, known)
    for part in ("items", "values"):
        if part in schema:
            schema[part] = _inlined(schema[part], seen, known)
    return schema
