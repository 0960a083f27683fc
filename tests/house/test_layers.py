"""Who may import whom. Low layers know nothing of high ones; nobody imports infra or the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from source_tree import PACKAGES, imports, modules

# a module belongs to the longest prefix that fits; each line: what it may import of ours beside
# itself
ALLOWED: dict[str, tuple[str, ...]] = {
    "schemas": (),
    "events": ("schemas",),
    "brokers.remoting": (),
    "brokers.store": ("brokers.remoting",),
    "brokers.ha": ("brokers.remoting", "brokers.store"),
    "brokers.replica": ("brokers.remoting", "brokers.store", "brokers.ha"),
    "brokers": ("schemas", "events"),
    # a controller speaks RocketMQ's protocol: the codec lives with the protocol
    "processors": ("schemas", "events", "brokers.remoting"),
    # the lakehouse uses the controllers' fold, so that no rule is written twice
    "lakehouse": ("schemas", "events", "processors"),
    "infra": ("schemas", "events", "processors", "brokers", "lakehouse"),
}
# the one part of processors that the lakehouse may touch: what is pure
PURE_OF_PROCESSORS = {"fold", "liveness"}


def layer_of(name: str) -> str:
    """The longest layer that `name` lies in; '' for what is not ours."""
    fits = [layer for layer in ALLOWED if name == layer or name.startswith(f"{layer}.")]
    return max(fits, key=len, default="")


def dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_imports_only_from_layers_below_it(path: Path) -> None:
    own = layer_of(dotted(path))
    wrong = []
    for name in imports(path):
        layer = layer_of(name)
        below = layer == own or any(
            layer == low or layer.startswith(f"{low}.") for low in ALLOWED[own]
        )
        # the rest of a package may use its own inner layers
        inner = own in PACKAGES and layer.startswith(f"{own}.")
        if layer and not below and not inner:
            wrong.append(name)
    assert not wrong, f"{path} ({own}) imports {wrong}"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_no_module_imports_tests_or_uses_relative_imports(path: Path) -> None:
    wrong = [name for name in imports(path) if name.split(".")[0] in ("tests", "")]
    assert not wrong, f"{path} imports {wrong}"


@pytest.mark.parametrize("path", modules("lakehouse"), ids=str)
def test_the_lakehouse_touches_only_the_pure_part_of_processors(path: Path) -> None:
    wrong = [
        n
        for n in imports(path)
        if n.startswith("processors.") and n.split(".")[1] not in PURE_OF_PROCESSORS
    ]
    assert not wrong, (
        f"{path} imports {wrong}: sockets and clocks of controllers have no place in a table"
    )
