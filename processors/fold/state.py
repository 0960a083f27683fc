"""What the fold knows: the state of the controller after some prefix of the log.

Responsible for its shape, its invariants and the settings that rules read.
Refuses to know how it came about, and anything soft: liveness, clocks, connections.
"""

from collections.abc import Iterator, Mapping

from immutables import Map
from msgspec import Struct, field

from events.envelope import MemberPosition
from processors.fold.rules import (
    RULES,
    RULES_VERSION,
    SETTING_AT_RISK_WAIT_MS,
    SETTING_DEDUPE_WINDOW,
    SETTING_UNCLEAN,
    rules_of,
)

NO_BROKER_ID = -1
FIRST_BROKER_ID = 1
# Java keeps epochs in an int; a Java broker could not read one above this.
EPOCH_MAX = 2_147_483_647
# How far above all epochs known of a set one from outside may be, and still be believed.
EPOCH_REACH = 1_000
# Java keeps ids in a long; room for the next one is left.
BROKER_ID_MAX = 2**63 - 2

# What keeps every outcome below the size of one record, whatever brokers send.
REPLICAS_MAX = 128
TEXT_CHARS_MAX = 1024

# Of all settings that any rules know: a cluster under older rules reads the defaults.
SETTING_DEFAULTS: Mapping[str, str] = {
    name: setting.default for rules in RULES.values() for name, setting in rules.settings.items()
}


class Replica(Struct, frozen=True, gc=False, array_like=True):
    """One replica of a broker set.

    Invariants:
    - `clean` is False from an unclean start until the replica is back in the set.
    - `is_regent` is True only when the last registration named an incarnation.
    """

    broker_id: int
    address: str
    register_check_code: str
    ha_address: str | None = None
    incarnation: str | None = None
    clean: bool = True
    is_regent: bool = False
    is_registered: bool = False
    last_epoch: int = -1
    end_offset: int = -1


class BrokerSet(Struct, frozen=True, gc=False, array_like=True):
    """All replicas that share one broker name; a tombstone once every replica was cleaned.

    Invariants:
    - replicas ascend by id without repeats, 1 <= id < next_broker_id.
    - sync_state_set ascends without repeats; its members are registered and clean.
    - master_broker_id is None or a member of sync_state_set.
    - 0 <= master_epoch <= highest_epoch_seen <= EPOCH_MAX; sync_state_set_epoch >= 0.
    - unclean_members ascend, are replicas, are not clean and not in sync_state_set.
    - master_restarted implies a master; a master implies has_had_master.
    - at_risk implies a master.
    - imported: nothing was decided about the set since it came over from another controller, and
      its master has not registered here.
    - tombstone exactly when there are no replicas; then no master, no members, no history.
    - remembered ascend, are clean registered replicas that once were members, and no members now:
      each holds all that was acknowledged, since nothing is while the set is below its minimum
      (S14).
    - former ascend, are replicas, and every member is among them (rules 3 and later).
    - uncertain ascend; while there are some, nobody leads and nobody is a member: the log lost
      decisions about the set, and each of these, of all that were replicas then, has to report what
      it holds (S11).
    - minimums ascend by id: who told that it acknowledges with no fewer members than so many, 2 or
      more.
    - positions ascend by id and are of former members: up to where each showed to hold what was
      confirmed (S15).
    - across records: next_broker_id and all epochs never fall.
    """

    cluster_name: str
    broker_name: str
    next_broker_id: int = FIRST_BROKER_ID
    replicas: tuple[Replica, ...] = ()
    master_broker_id: int | None = None
    master_epoch: int = 0
    sync_state_set: tuple[int, ...] = ()
    sync_state_set_epoch: int = 0
    highest_epoch_seen: int = 0
    master_restarted: bool = False
    has_had_master: bool = False
    unclean_members: tuple[int, ...] = ()
    tombstone: bool = False
    at_risk: bool = False
    imported: bool = False
    remembered: tuple[int, ...] = ()
    former: tuple[int, ...] = ()
    minimums: tuple[tuple[int, int], ...] = ()
    positions: tuple[MemberPosition, ...] = ()
    uncertain: tuple[int, ...] = ()

    def min_in_sync(self) -> int | None:
        """Return with how few members the master acknowledges, 1 if it did not tell; None without
        one.
        """
        return None if self.master_broker_id is None else self.minimum_of(self.master_broker_id)

    def minimum_of(self, broker_id: int) -> int:
        """Return with how few members that replica acknowledges as master, 1 if it did not tell."""
        for told_by, minimum in self.minimums:
            if told_by == broker_id:
                return minimum
        return 1

    def replica(self, broker_id: int) -> Replica | None:
        """Return the replica with that id, or None."""
        for replica in self.replicas:
            if replica.broker_id == broker_id:
                return replica
        return None

    def master(self) -> Replica | None:
        """Return the recorded master, alive or not; None when there is none."""
        if self.master_broker_id is None:
            return None
        return self.replica(self.master_broker_id)


class ControllerState(Struct, frozen=True, gc=False):
    """Everything that decisions rest on; `cluster_id` is empty before `ClusterFormed`.

    Invariants:
    - term is 0 exactly while there is no leader, and never falls.
    - every key of sets is the broker_name of its value.
    - leader_release is the release that the last claim named.
    """

    cluster_id: str = ""
    term: int = 0
    leader_id: str | None = None
    leader_address: str | None = None
    rules_version: int = 0
    settings: Map[str, str] = field(default_factory=Map)
    fingerprints: tuple[str, ...] = ()
    sets: Map[str, BrokerSet] = field(default_factory=Map)
    leader_release: str = ""

    @property
    def is_formed(self) -> bool:
        """True once the log has a cluster."""
        return self.cluster_id != ""

    @property
    def unclean_allowed(self) -> bool:
        """True when a master may be elected outside the SyncStateSet."""
        return self.setting(SETTING_UNCLEAN) == "true"

    @property
    def at_risk_wait_ms(self) -> int:
        """How long an election at risk waits for former members that do not come back; 0 is for
        ever.
        """
        return int(self.setting(SETTING_AT_RISK_WAIT_MS))

    @property
    def dedupe_window_offsets(self) -> int:
        """How many offsets back a repeated command id is recognised."""
        return int(self.setting(SETTING_DEDUPE_WINDOW))

    def with_set(self, broker_set: BrokerSet) -> "ControllerState":
        """Return this state with `broker_set` in place of the one of that name."""
        return ControllerState(
            self.cluster_id,
            self.term,
            self.leader_id,
            self.leader_address,
            self.rules_version,
            self.settings,
            self.fingerprints,
            self.sets.set(broker_set.broker_name, broker_set),
            self.leader_release,
        )

    def setting(self, name: str) -> str:
        """Return the value in force of a known setting, its default when never set."""
        return self.settings.get(name, SETTING_DEFAULTS[name])

    def live_set(self, broker_name: str) -> BrokerSet | None:
        """Return the set if it exists: a tombstone does not."""
        found = self.sets.get(broker_name)
        return None if found is None or found.tombstone else found


def setting_is_valid(name: str, value: str, rules_version: int = RULES_VERSION) -> bool:
    """Return whether those rules know `name` and can read `value` under it."""
    setting = rules_of(rules_version).settings.get(name)
    return setting is not None and setting.is_valid(value)


def check_invariants(state: ControllerState) -> list[str]:
    """Return one line per broken invariant; empty when the state is sound."""
    broken = []
    if (state.term == 0) != (state.leader_id is None):
        broken.append(f"term {state.term} with leader {state.leader_id}")
    for name, broker_set in sorted(state.sets.items()):
        if name != broker_set.broker_name:
            broken.append(f"{name}: holds the set {broker_set.broker_name}")
        broken.extend(f"{name}: {line}" for line in _broken_in_set(broker_set))
    return broken


def _broken_in_set(broker_set: BrokerSet) -> Iterator[str]:
    ids = tuple(replica.broker_id for replica in broker_set.replicas)
    clean = {replica.broker_id for replica in broker_set.replicas if replica.clean}
    registered = {r.broker_id for r in broker_set.replicas if r.is_registered}
    members, unclean = broker_set.sync_state_set, broker_set.unclean_members
    if list(ids) != sorted(set(ids)) or any(i < FIRST_BROKER_ID for i in ids):
        yield f"replica ids {ids}"
    if ids and ids[-1] >= broker_set.next_broker_id:
        yield f"id {ids[-1]} with next id {broker_set.next_broker_id}"
    if list(members) != sorted(set(members)) or not set(members) <= clean & registered:
        yield f"SyncStateSet {members}, clean {sorted(clean)}, registered {sorted(registered)}"
    if list(unclean) != sorted(set(unclean)) or not set(unclean) <= set(ids) - clean:
        yield f"unclean members {unclean}"
    if set(unclean) & set(members):
        yield f"unclean members {unclean} in the SyncStateSet {members}"
    yield from _broken_memory(broker_set, clean & registered)
    if broker_set.uncertain and (
        members or list(broker_set.uncertain) != sorted(set(broker_set.uncertain))
    ):
        yield f"uncertain {broker_set.uncertain} with the SyncStateSet {members}"
    yield from _broken_mastership(broker_set)


def _broken_memory(broker_set: BrokerSet, sound: set[int]) -> Iterator[str]:
    remembered, former = broker_set.remembered, broker_set.former
    ids = {replica.broker_id for replica in broker_set.replicas}
    if list(remembered) != sorted(set(remembered)) or not set(remembered) <= sound & set(former):
        yield f"remembered {remembered}, sound {sorted(sound)}, former members {former}"
    if set(remembered) & set(broker_set.sync_state_set):
        yield f"remembered {remembered} in the SyncStateSet {broker_set.sync_state_set}"
    if list(former) != sorted(set(former)) or not set(former) <= ids:
        yield f"former members {former} of replicas {sorted(ids)}"
    shown = [row.broker_id for row in broker_set.positions]
    if shown != sorted(set(shown)) or not set(shown) <= set(former):
        yield f"positions of {shown}, former members {former}"


def _broken_mastership(broker_set: BrokerSet) -> Iterator[str]:
    master, epoch = broker_set.master_broker_id, broker_set.master_epoch
    if master is not None and master not in broker_set.sync_state_set:
        yield f"master {master} outside the SyncStateSet {broker_set.sync_state_set}"
    if not 0 <= epoch <= broker_set.highest_epoch_seen <= EPOCH_MAX:
        yield f"master epoch {epoch}, highest seen {broker_set.highest_epoch_seen}"
    if broker_set.sync_state_set_epoch < 0:
        yield f"set epoch {broker_set.sync_state_set_epoch}"
    if broker_set.master_restarted and master is None:
        yield "a restarted master without a master"
    if broker_set.at_risk and master is None:
        yield "a mastership at risk without a master"
    if master is not None and not broker_set.has_had_master:
        yield "a master without history"
    if broker_set.tombstone != (not broker_set.replicas):
        yield f"tombstone {broker_set.tombstone} with {len(broker_set.replicas)} replicas"
    history = (master is not None, broker_set.sync_state_set, broker_set.has_had_master)
    if broker_set.tombstone and history != (False, (), False):
        yield f"a tombstone with history {history}"
