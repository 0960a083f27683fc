"""`regent controller adopt` and `release`, as they are typed: what refuses, what is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.changeover.order import Kind, Lines, Order
from infra.changeover import calls
from infra.changeover.facts import NO_ANSWER, Found, Look
from infra.cli.controller import changeover
from infra.cli.main import main
from infra.controllers.admin import ControllerAdmin
from infra.migration import java_controller
from infra.migration.import_plan import HaFacts

AT = ("--controller", "k:1", "--wait", "0")


class Stage:
    """A set of two as brokers and controllers tell of it, and what was done to it."""

    def __init__(self) -> None:
        self.kind, self.change, self.orders = Kind.FIXED, "", ()
        self.followed = {"h0:1", "h1:1"}
        self.here: dict[str, Any] | None = None
        self.done: list[str] = []
        self.silent: set[str] = set()

    def looks(self, addresses: Any, _timeout_ms: int) -> dict[str, Found]:
        return {at: self.look(at) for at in addresses}

    def look(self, address: str) -> Found:
        if address in self.silent:
            return NO_ANSWER
        leads, number = address == "h0:1", int(address[1])
        moved = address in self.followed
        other = Kind.FIXED if self.kind is Kind.CONTROLLERS else Kind.CONTROLLERS
        return Look(
            *("regent", "a", address, self.kind if moved else other, number, leads),
            *("MASTER" if leads else "SLAVE", self.change if moved else "", 2, False),
            *(("n:1",), "/s", Lines(number), self.orders if leads else ()),
        )

    def begin(self, orders: tuple[Order, ...], _timeout_ms: int) -> dict[str, str]:
        self.kind, self.change, self.orders = orders[0].kind, orders[0].change, tuple(orders)
        self.done.append(f"begin {self.kind.value}")
        return {"heldMs": "12", "left": ""}

    def follow(self, order: Order, _timeout_ms: int) -> dict[str, str]:
        self.done.append(f"follow {order.address}")
        self.followed.add(order.address)
        return {}

    def state(self, *_: object, **__: object) -> dict[str, Any]:
        sets = {} if self.here is None else {"a": self.here}
        controllers = [{"address": "k:1"}]
        return {"rules_version": 3, "controllers": controllers, "sets": sets}

    def recorded(self, fields: Any) -> None:
        self.done.append(f"import {fields['sync_state_set']}")
        self.here = whole(master=2)

    def cleaned(self, cluster: str, name: str, *_: object, living: bool = False) -> None:
        self.done.append(f"clean {cluster} {name} {living}")


def whole(master: int) -> dict[str, Any]:
    heard = {"alive": True, "reason": "heartbeat"}
    replicas = [{"id": key + 1, "address": f"h{key}:1", **heard} for key in (0, 1)]
    return {
        "cluster": "regent",
        "tombstone": False,
        "imported": False,
        "master": master,
        "sync_state_set": [1, 2],
        "replicas": replicas,
    }


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage()
    monkeypatch.setattr(calls, "members_of", lambda *_: {0: "h0:1", 1: "h1:1"})
    for name in ("begin", "follow"):
        monkeypatch.setattr(calls, name, getattr(made, name))
    monkeypatch.setattr(calls, "looks_of", made.looks)
    monkeypatch.setattr(ControllerAdmin, "state", made.state)
    monkeypatch.setattr(ControllerAdmin, "import_set", lambda _self, fields: made.recorded(fields))
    monkeypatch.setattr(ControllerAdmin, "clean", lambda _self, *a, **b: made.cleaned(*a, **b))
    links = HaFacts("h0:1", True, 9, 1, 1, 1, "")
    monkeypatch.setattr(java_controller, "ha_links", lambda *_: {"h0:1": links})
    yield made


def adopt(*flags: str) -> int:
    return main(["controller", "adopt", "a", "--namesrv", "n:1", *AT, *flags])


def release(*flags: str) -> int:
    return main(["controller", "release", "a", *AT, *flags])


def test_a_dry_run_shows_the_steps_and_changes_nothing(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adopt("--dry-run") == 0
    said = capsys.readouterr().out
    assert "h0:1 holds writes" in said and 'controllers = ["k:1"]' in said
    assert "regent controller adopt a --namesrv 'n:1' --controller 'k:1'" in said
    assert not stage.done


def test_it_asks_before_it_begins(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt() == 2 and not stage.done
    assert "--yes" in capsys.readouterr().err


def test_what_hinders_it_is_said_with_the_way_out_and_ends_with_1(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.silent = {"h1:1"}
    assert adopt("--yes") == 1 and not stage.done
    said = capsys.readouterr().out
    assert "no answer from h1:1" in said and "Start it" in said and "nothing was changed" in said


def test_the_controllers_know_the_set_before_its_master_gives_up(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adopt("--yes", "--json") == 0
    assert stage.done == ["import [1, 2]", "begin controllers"]
    document = json.loads(capsys.readouterr().out)
    assert document["done"] and document["to"] == "controllers"
    assert "check_code" not in document["orders"][0], "what proves an id is nobody's business"
    assert any('controllers = ["k:1"]' in line for line in document["lines"])


def test_a_master_that_serves_on_is_asked_again_within_the_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusals = [calls.NotNow("1 of 2 other replicas have everything", "")] * 2

    def begin(orders: tuple[Order, ...], timeout_ms: int) -> dict[str, str]:
        if refusals:
            raise refusals.pop()
        return stage.begin(orders, timeout_ms)

    monkeypatch.setattr(calls, "begin", begin)
    monkeypatch.setattr(changeover, "AGAIN_S", 0.0)
    assert adopt("--yes") == 1 and len(refusals) == 1, "there was no time for another try"
    stage.here = None
    assert adopt("--yes", "--wait", "60") == 0 and not refusals
    assert "not yet: 1 of 2" in capsys.readouterr().out


def test_an_interrupted_run_goes_on_without_asking(stage: Stage) -> None:
    assert adopt("--yes") == 0
    stage.done.clear()
    stage.followed = {"h0:1"}
    assert adopt("--wait", "60") == 0
    assert stage.done == ["follow h1:1"]
    stage.done.clear()
    assert adopt() == 0 and not stage.done, "and finds its work done"


def test_who_does_not_follow_in_time_is_named(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adopt("--yes") == 0
    stage.followed, stage.silent = {"h0:1"}, {"h1:1"}
    assert adopt() == 1
    assert "not there yet: h1:1" in capsys.readouterr().out


def test_a_released_set_is_forgotten_by_the_controllers_at_last(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.kind, stage.here = Kind.CONTROLLERS, whole(master=1)
    assert release("--yes", "--json") == 0
    assert stage.done == ["begin fixed", "clean regent a True"]
    document = json.loads(capsys.readouterr().out)
    assert [one["broker_id"] for one in document["orders"]] == [0, 1]
    assert any("broker_id = 1" in line or "says it already" in line for line in document["lines"])


@pytest.mark.parametrize("knows", [True, False], ids=["a name server is named", "none is"])
def test_a_set_that_was_released_is_so_and_nothing_is_done(
    stage: Stage,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    knows: bool,
) -> None:
    monkeypatch.chdir(tmp_path)  # no cluster runs there
    stage.here = {**whole(master=1), "tombstone": True, "replicas": []}
    more = ("--namesrv", "n:1") if knows else ()
    assert release("--json", *more) == 0 and not stage.done
    document = json.loads(capsys.readouterr().out)
    assert document["done"] and document["stage"] == "done"
    (leads,) = (one for one in document["checks"] if one["name"] == "master")
    assert leads["ok"] is knows
    assert release(*more) == 0 and not stage.done
    assert "set a: is with fixed ids already" in capsys.readouterr().out


def test_a_set_that_nobody_knows_is_not_called_released(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "members_of", lambda *_: {})
    assert release("--namesrv", "n:1", "--json") == 1
    assert not json.loads(capsys.readouterr().out)["done"]


def test_a_set_that_is_with_other_controllers_is_not_called_released(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.kind = Kind.CONTROLLERS
    assert release("--namesrv", "n:1", "--yes") == 1 and not stage.done
    assert "run no such set" in capsys.readouterr().out


def test_nothing_is_forgotten_before_the_set_stands(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.kind, stage.here = Kind.CONTROLLERS, whole(master=1)
    monkeypatch.setattr(java_controller, "ha_links", lambda *_: {"h0:1": None})
    assert release("--yes") == 1
    assert stage.done == ["begin fixed"]


@pytest.mark.parametrize("verb", ["adopt", "release"])
def test_the_help_teaches(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert "--dry-run" in said and f"regent controller {verb} broker-a" in said
    words = " ".join(said.split())
    assert "goes on where it was" in words and "holds writes until every replica" in words


def test_a_wrong_name_server_is_wrong_usage(stage: Stage) -> None:
    assert main(["controller", "adopt", "a", "--namesrv", "nowhere", *AT]) == 2
    assert changeover.WAIT_S > 0
