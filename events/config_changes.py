"""Settings of a running process under their own names and under RocketMQ's, and what a request to
change them means (25, 318; PROTOCOL 4.19).

Responsible for: all or nothing: names, values and combinations are judged before anything is taken,
and the answer names what is wrong; which of the changes count at once.
Refuses to know: files, clocks, which settings there are, and what one of them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from events.config_file import did_you_mean
from events.properties import PropertiesRejected, parse

Model = TypeVar("Model", bound=BaseModel)

NAMES_SHOWN = 8
NAME_CHARACTERS_SHOWN = 80


class Counts(Enum):
    """From when on a setting that was changed at run time counts."""

    AT_ONCE = "at once"
    AT_NEXT_START = "at the next start"
    NOT_CHANGED = "only the process's own file says it"


@dataclass(frozen=True, slots=True)
class Setting:
    """`theirs`: RocketMQ's name, empty where it has none of this meaning."""

    counts: Counts
    theirs: str = ""


@dataclass(frozen=True)
class Names:
    """The settings of one kind of process by our name. `facts`: RocketMQ's settings that have one
    value here, shown since tools read them. `words`: our setting -> our word for a value ->
    RocketMQ's. `hidden`: our names of what is not shown, such as passwords.
    """

    settings: Mapping[str, Setting]
    black_list: frozenset[str]
    facts: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    ours: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        theirs = {one.theirs: name for name, one in self.settings.items() if one.theirs}
        object.__setattr__(self, "ours", theirs)

    def counts(self, name: str) -> Counts | None:
        """None: no setting has this name of ours."""
        setting = self.settings.get(name)
        return None if setting is None else setting.counts

    def forbids(self, name: str) -> bool:
        """Whether nobody may change what has this name, of ours or RocketMQ's."""
        own_file_only = self.counts(self.ours.get(name, name)) is Counts.NOT_CHANGED
        return name in self.black_list or name in self.facts or own_file_only

    def read(self, ours: str, text: str) -> str:
        """What a model reads, of what an operator wrote under either name."""
        words = self.words.get(ours, {})
        return next((own for own, theirs in words.items() if theirs == text.upper()), text)

    def lines(self, config: BaseModel, facts: Mapping[str, str]) -> dict[str, str]:
        """All settings under both names. `facts`: more lines of RocketMQ's that are no setting."""
        found = {**self.facts, **facts}
        for ours, setting in self.settings.items():
            if ours in self.hidden:
                continue
            text = shown(getattr(config, ours))
            found[ours] = text
            if setting.theirs:
                found[setting.theirs] = self.words.get(ours, {}).get(text, text)
        return found


def shown(value: object) -> str:
    """A value as a line of properties has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ";".join(map(str, value))
    if isinstance(value, dict):
        return ";".join(f"{key}:{one}" for key, one in value.items())
    return "" if value is None else str(value)


class ChangeRefused(Exception):
    """Nothing is changed; the text is for the operator. `forbidden`: nobody may change it."""

    def __init__(self, remark: str, *, forbidden: bool = False) -> None:
        super().__init__(remark)
        self.forbidden = forbidden


@dataclass(frozen=True, slots=True)
class Changed(Generic[Model]):
    """`wanted`: the whole configuration as it then is at the next start; `running`: as it is at
    once. `fields`: our names of what is different now. `unknown`: names that mean nothing here.
    """

    names: Names
    wanted: Model
    running: Model
    fields: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def at_next_start(self) -> tuple[str, ...]:
        """Those of the fields that wait for it."""
        return tuple(
            name for name in self.fields if self.names.counts(name) is Counts.AT_NEXT_START
        )

    @property
    def remark(self) -> str | None:
        """What an operator should know who was answered with 0."""
        said = []
        if self.at_next_start:
            said.append(f"from the next start on: {listed(self.at_next_start)}")
        if self.unknown:
            guess = did_you_mean(self.unknown[0], [*self.names.settings, *self.names.ours])
            said.append(f"not known here and ignored: {listed(self.unknown)}{guess}")
        return "; ".join(said) or None


def changed(names: Names, wanted: Model, running: Model, body: bytes) -> Changed[Model]:
    """`wanted` and `running` as a body of properties changes them. ChangeRefused."""
    asked, unknown = _asked(names, body)
    after = _checked(names, wanted, {**wanted.model_dump(), **asked})
    fields = tuple(name for name in asked if getattr(after, name) != getattr(wanted, name))
    at_once = {
        name: getattr(after, name) for name in fields if names.counts(name) is Counts.AT_ONCE
    }
    now = _checked(names, running, {**running.model_dump(), **at_once})
    return Changed(names, after, now, fields, unknown)


def _asked(names: Names, body: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    """(our name -> text, names that are not known here)."""
    try:
        lines = parse(body)
    except PropertiesRejected as error:
        raise ChangeRefused(f"the body is not read: {error}") from None
    forbidden = [name for name in lines if names.forbids(name)]
    if forbidden:
        raise ChangeRefused(
            f"Can not update config in black list. {listed(forbidden)}: not changed at run time, "
            "only the process's own file says it, from a start on",
            forbidden=True,
        )
    asked: dict[str, str] = {}
    unknown = []
    for name, text in lines.items():
        ours = names.ours.get(name, name)
        if ours not in names.settings:
            unknown.append(name)
            continue
        value = names.read(ours, text.strip())
        if asked.setdefault(ours, value) != value:
            raise ChangeRefused(f"{name} and {ours} are one setting, and differ")
    return asked, tuple(unknown)


def _checked(names: Names, before: Model, values: Mapping[str, Any]) -> Model:
    try:
        return type(before).model_validate(dict(values))
    except ValidationError as error:
        raise ChangeRefused(_in_words(names, error)) from None


def _in_words(names: Names, error: ValidationError) -> str:
    wrong = []
    for one in error.errors()[:NAMES_SHOWN]:
        name, text = ".".join(map(str, one["loc"])), str(one["msg"]).removeprefix("Value error, ")
        theirs = names.settings[name].theirs if name in names.settings else ""
        # What contradicts itself has no name of its own.
        wrong.append(f"{name}{f' ({theirs})' if theirs else ''}: {text}" if name else text)
    return f"nothing is changed: {'; '.join(wrong)}"


def listed(names: Iterable[str]) -> str:
    """The first of them, each cut."""
    every = [name[:NAME_CHARACTERS_SHOWN] for name in names]
    more = len(every) - NAMES_SHOWN
    return ", ".join(every[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
