"""What the desks of a core share."""

from processors.controller.context import CoreConfig, CoreContext
from processors.fold.folder import Folder
from tests.support.controller_rig import CLUSTER, Rig


def context() -> CoreContext:
    return CoreContext(CoreConfig("c1", "h:1", "cluster", {"c2": "h:2"}), Folder(), iter([]))


def test_stamps_follow_the_wall_clock_of_the_last_call_that_had_one() -> None:
    made = context()
    made.clock(100, 5_000)
    made.clock(130)
    assert made.wall_ms == 5_030


def test_an_envelope_before_the_first_record_has_no_digest() -> None:
    made = context()
    made.clock(0, 9)
    envelope = made.envelope(bytes(16), "empty_log")
    assert (envelope.cluster_id, envelope.term, envelope.applied_offset) == ("cluster", 0, -1)
    assert (envelope.applied_digest, envelope.issued_at_ms) == (b"", 9)


def test_nobody_leads_an_empty_log() -> None:
    assert context().leader_address() is None and not context().is_active
    assert context().evidence_of("nosuch", None) == ()


def test_replicas_have_a_place_where_they_registered_and_where_they_are_heard_from() -> None:
    rig = Rig().lead().three()
    assert rig.core.replica_hosts() == {"b1", "b2", "b3", "peer"}
    rig.request(
        1013,
        {
            "clusterName": CLUSTER,
            "brokerName": "other",
            "appliedBrokerId": "1",
            "registerCheckCode": "6.6.6.6:1;1",
        },
    )
    rig.request(
        904,
        {"clusterName": CLUSTER, "brokerName": "other", "brokerId": "1", "brokerAddr": "6.6.6.6:1"},
        conn=9,
    )
    assert "6.6.6.6" not in rig.core.replica_hosts(), "an id alone is no replica yet"
