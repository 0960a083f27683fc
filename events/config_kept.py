"""What was changed at run time, as a restart finds it (25, 318; PROTOCOL 4.19).

Responsible for: the document of it, and which of it still counts.
Refuses to know: files, and what a setting may be.

A change holds until the process's own file says something else than it did when the change was
made: the last one who decided wins, whichever way he did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from events.config_changes import Names

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Kept:
    """`changes`: our name -> (what the file said, what was set), both as JSON has them. `counter`
    of all changes, the last one at `changed_ms` since 1970.
    """

    changes: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    counter: int = 0
    changed_ms: int = 0

    def with_changes(self, written: BaseModel, wanted: BaseModel, wall_ms: int) -> Kept:
        """After a change to `wanted`, when the file says `written`."""
        before, after = written.model_dump(mode="json"), wanted.model_dump(mode="json")
        changes = {
            name: (before[name], after[name]) for name in after if before[name] != after[name]
        }
        return Kept(changes, self.counter + 1, wall_ms)

    def over(self, names: Names, written: Model) -> tuple[Model, tuple[str, ...]]:
        """(the configuration that counts when the file says `written`, names of changes that do
        not count any more).
        """
        says = written.model_dump(mode="json")
        holds = {
            name: value
            for name, (before, value) in self.changes.items()
            if name in says and says[name] in (before, value) and not names.forbids(name)
        }
        try:
            config = type(written).model_validate({**written.model_dump(), **holds})
        except ValidationError:
            return written, tuple(self.changes)
        return config, tuple(name for name in self.changes if name not in holds)

    def document(self) -> dict[str, object]:
        """As the file has it."""
        changes = {
            name: {"instead_of": before, "value": value}
            for name, (before, value) in self.changes.items()
        }
        return {"changes": changes, "counter": self.counter, "changed_ms": self.changed_ms}


def kept_of(document: object) -> Kept:
    """ValueError: it is no such document."""
    if not isinstance(document, Mapping) or not isinstance(document.get("changes"), Mapping):
        raise ValueError("no document of changed settings")
    changes = {}
    for name, one in document["changes"].items():
        if not isinstance(one, Mapping) or "value" not in one:
            raise ValueError(f"the change of {str(name)[:80]} has no value")
        changes[str(name)] = (one.get("instead_of"), one["value"])
    counter, changed_ms = document.get("counter", 0), document.get("changed_ms", 0)
    if type(counter) is not int or type(changed_ms) is not int:
        raise ValueError("the counter of the changes is no number")
    return Kept(changes, counter, changed_ms)
