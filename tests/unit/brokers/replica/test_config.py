"""Settings of a replica reach the links and the set."""

from __future__ import annotations

from brokers.ha.frames import FRAME_BYTES_MAX, Transfer
from brokers.replica.config import ReplicaConfig
from brokers.replica.put_rules import AckMode


def test_the_defaults_are_the_safe_ones() -> None:
    config = ReplicaConfig()
    assert config.all_ack and config.min_in_sync_replicas == 2
    assert config.batch_bytes + Transfer.LAYOUT.size <= FRAME_BYTES_MAX


def test_links_and_set_get_their_part() -> None:
    config = ReplicaConfig(
        file_bytes=4096,
        ha_heartbeat_ms=7,
        housekeeping_ms=8,
        ack_wait_shrink_ms=9,
        relink_grace_ms=10,
    )
    limits, timers = config.link_limits(), config.set_timers()
    assert (limits.file_bytes, limits.heartbeat_ms, limits.housekeeping_ms) == (4096, 7, 8)
    assert (timers.ack_wait_shrink_ms, timers.relink_grace_ms) == (9, 10)


def test_the_acknowledgement_mode_is_made_of_the_settings() -> None:
    assert ReplicaConfig().ack_mode() == AckMode(True, 2, 2, False)
    config = ReplicaConfig(
        all_ack=False, in_sync_replicas=3, min_in_sync_replicas=1, auto_in_sync_replicas=True
    )
    assert config.ack_mode() == AckMode(False, 3, 1, True)


def test_the_start_warns_of_what_gives_up_a_promise() -> None:
    assert ReplicaConfig().warnings() == []
    config = ReplicaConfig(all_ack=False, async_learner=True, sync_from_last_file=True)
    assert [text.split(":")[0].split()[0] for text in config.warnings()] == [
        "acknowledgement",
        "sync_from_last_file",
        "async_learner",
    ]
