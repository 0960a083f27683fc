"""Effects are values."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from brokers.replica import effects as fx


@pytest.mark.parametrize("kind", get_args(fx.Effect), ids=lambda kind: kind.__name__)
def test_every_effect_is_a_frozen_value_with_a_meaning(kind: type) -> None:
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__ + "(")


def test_the_list_of_effects_is_closed() -> None:
    defined = {
        value
        for value in vars(fx).values()
        if isinstance(value, type) and value.__module__ == fx.__name__
    }
    assert defined == set(get_args(fx.Effect))
