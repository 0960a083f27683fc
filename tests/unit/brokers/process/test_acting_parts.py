"""Which brokers have the parts by which a slave acts, and what of their settings the rules get."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.process.acting_parts import acting_config
from brokers.process.broker import BrokerProcess
from tests.support.brokers import broker_config


def settings(**changes: object) -> dict[str, object]:
    return {"broker_id": 1, "enable_slave_acting_master": True, "total_replicas": 3, **changes}


def test_the_rules_get_the_settings_of_this_mode(tmp_path: Path) -> None:
    config = broker_config(
        tmp_path,
        [],
        ["n:1"],
        **settings(
            skip_pre_online=True,
            compatible_with_old_name_servers=False,
            broker_not_active_ms=9_000,
            member_group_poll_ms=700,
            ha_master_address="m:2",
        ),
    )
    rules = acting_config(config)
    assert (rules.total_replicas, rules.skip_pre_online, rules.compat) == (3, True, False)
    assert (rules.not_active_ms, rules.member_poll_ms) == (9_000, 700)
    assert rules.static_ha_address and rules.place.broker_id == 1 and not rules.is_master


@pytest.mark.parametrize(("acts", "has"), [(True, True), (False, False)])
async def test_only_a_set_that_wants_it_has_them(tmp_path: Path, acts: bool, has: bool) -> None:
    changes = settings() if acts else {"broker_id": 1}
    broker = BrokerProcess(broker_config(tmp_path, [], ["127.0.0.1:1"], **changes))
    assert (broker.acting is not None) == has
    assert broker.switch.route_entry() is None
    await broker.stop("test")
