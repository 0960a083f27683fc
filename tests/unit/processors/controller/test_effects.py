"""Effects are values."""

import dataclasses
import typing

import pytest

from processors.controller import effects


def test_every_effect_is_frozen_and_in_the_closed_list() -> None:
    listed = set(typing.get_args(effects.Effect))
    defined = {one for one in vars(effects).values() if dataclasses.is_dataclass(one)}
    assert listed == defined
    with pytest.raises(dataclasses.FrozenInstanceError):
        effects.Probe("a:1").address = "b:1"  # type: ignore[misc]
