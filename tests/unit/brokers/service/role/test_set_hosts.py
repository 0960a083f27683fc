"""Who speaks from a host of the set, or of its controllers."""

from brokers.replica.ha_status import HaStatus, SlaveSeen
from brokers.service.role.role_view import RoleView
from brokers.service.role.set_hosts import SetHosts


def test_a_replica_is_known_by_its_registered_host_or_its_link() -> None:
    slaves: list[SlaveSeen] = []
    hosts = SetHosts(
        ["127.0.0.1:1"],
        lambda: {1: "10.0.0.1:10911", 2: "", 3: "broker-c:10911"},
        lambda: HaStatus(tuple(slaves)),
        RoleView(),
    )
    assert (
        hosts.is_replica("10.0.0.1:40000")
        and not hosts.is_replica("10.0.0.3:10911")
        and not hosts.is_replica("")
    )
    slaves += [
        SlaveSeen("10.0.0.3:50000", 3, True, 0, 0, 0),
        SlaveSeen("10.0.0.9:50000", None, False, -1, -1, 0),
    ]
    assert hosts.is_replica("10.0.0.3:40000") and not hosts.is_replica("10.0.0.9:40000")
    assert (
        hosts.is_ours("10.0.0.3:40000")
        and hosts.is_ours("127.0.0.1:40000")
        and not hosts.is_ours("10.0.0.9:40000")
    )
