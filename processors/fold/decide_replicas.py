"""Decides about the replicas of a set: their ids, their registration, their being forgotten.

Responsible for RULES 5.2, 5.3 and 5.7 with design S5, S6 and S9.
Refuses to know elections: what it clears, others elect anew.
"""

from msgspec import structs

from events.changes import (
    BrokerIdApplied,
    BrokerRegistered,
    BrokersCleaned,
    MasterCleared,
    MinimumTold,
    PositionsShown,
    SyncStateSetAltered,
)
from events.commands import ApplyBrokerId, CleanBrokerData, RegisterBroker
from processors.fold.candidates import reach
from processors.fold.decide_positions import is_below, is_below_heard, restarted_unseen
from processors.fold.refusals import ACCEPTED_WITHOUT_CHANGE, Decision, Refusal
from processors.fold.rules import Rules, rules_of
from processors.fold.state import (
    BROKER_ID_MAX,
    EPOCH_MAX,
    FIRST_BROKER_ID,
    REPLICAS_MAX,
    TEXT_CHARS_MAX,
    BrokerSet,
    ControllerState,
    Replica,
)

REASON_UNCLEAN_START = "UNCLEAN_START"
REASON_CLEANED = "CLEANED"
REASON_WENT_BACK = "WENT_BACK"
UNKNOWN = -1


def apply_broker_id(state: ControllerState, command: ApplyBrokerId) -> Decision:
    """Give the next id away, or recognise the same applicant by its check code (S9)."""
    broker_set = state.sets.get(command.broker_name)
    rules = rules_of(state.rules_version)
    wanted = command.applied_broker_id
    if broker_set is not None and (known := broker_set.replica(wanted)) is not None:
        code = command.register_check_code
        if known.register_check_code == code and (code or not rules.empty_code_is_nobody):
            return ACCEPTED_WITHOUT_CHANGE
        return Decision(Refusal.BROKER_ID_INVALID)
    # An id with none after it could not be recorded.
    if wanted > BROKER_ID_MAX or wanted != (
        FIRST_BROKER_ID if broker_set is None else broker_set.next_broker_id
    ):
        return Decision(Refusal.BROKER_ID_INVALID)
    texts = (command.cluster_name, command.broker_name, command.register_check_code)
    if _any_too_long(*texts) or (broker_set and len(broker_set.replicas) >= REPLICAS_MAX):
        return Decision(Refusal.BROKER_ID_INVALID)
    # The set keeps the cluster name it began with (RULES 4.1).
    begins = broker_set is None or (rules.tombstone_takes_cluster_name and broker_set.tombstone)
    cluster_name = command.cluster_name if begins or broker_set is None else broker_set.cluster_name
    applied = BrokerIdApplied(
        command.broker_name,
        cluster_name,
        wanted,
        command.register_check_code.partition(";")[0],
        command.register_check_code,
        wanted + 1,
    )
    return Decision(changes=(applied,))


def register_broker(state: ControllerState, command: RegisterBroker) -> Decision:
    """Record a start of a replica: an unclean one leaves the set at once (S5)."""
    broker_set = state.live_set(command.broker_name)
    replica = None if broker_set is None else broker_set.replica(command.broker_id)
    if broker_set is None or replica is None:
        return Decision(Refusal.NEED_TO_BE_REGISTERED)
    last_epoch = UNKNOWN if command.last_epoch is None else command.last_epoch
    # The epoch after the highest one reported must still fit (S7).
    texts = (command.broker_address, command.ha_address, command.incarnation)
    rules = rules_of(state.rules_version)
    too_high = last_epoch >= reach(broker_set, rules, EPOCH_MAX)
    if not command.broker_address or _any_too_long(*texts) or too_high:
        return Decision(Refusal.INVALID_REGISTRATION)
    if rules.notices_going_back and _went_back(broker_set, replica, command):
        command = structs.replace(command, clean=False)
    highest = broker_set.highest_epoch_seen
    highest = highest if highest > last_epoch else last_epoch
    lost: tuple[MasterCleared | SyncStateSetAltered, ...] = ()
    is_unclean = _is_unclean_start(broker_set, replica, command, rules)
    if is_unclean:
        if replica.broker_id in broker_set.sync_state_set:
            lost = left_the_set(broker_set, (replica.broker_id,), REASON_UNCLEAN_START, highest)
        elif broker_set.has_had_master:
            lost = (_same_set_anew(broker_set, highest),)
        highest = max((change.highest_epoch_seen for change in lost), default=highest)
    registered = _registered(broker_set, replica, command, highest, is_unclean=is_unclean)
    told: tuple[MinimumTold | PositionsShown, ...] = ()
    if rules.remembers:
        told = _minimum(broker_set, command)
    if rules.notices_going_back and (broker_set.positions or command.heard_epoch is not None):
        told = (*told, *restarted_unseen(broker_set, command))
    if _is_known_already(broker_set, replica, registered):
        return Decision(changes=told) if told else ACCEPTED_WITHOUT_CHANGE
    return Decision(changes=(*lost, registered, *told))


def clean_broker_data(state: ControllerState, command: CleanBrokerData) -> Decision:
    """Forget replicas; what is left of an emptied set is a tombstone (S9)."""
    broker_set = state.live_set(command.broker_name)
    if command.broker_ids is None:
        if not command.clean_living and broker_set and broker_set.master_broker_id is not None:
            return Decision(Refusal.CLEAN_HAS_MASTER)
    elif not command.broker_ids:
        return Decision(Refusal.CLEAN_NAMES_NOBODY)
    elif not command.clean_living and _anyone_alive(command, set(command.broker_ids)):
        return Decision(Refusal.CLEAN_IS_ALIVE)
    if broker_set is None:
        return Decision(Refusal.CLEAN_NO_SUCH_SET)
    ids = tuple(replica.broker_id for replica in broker_set.replicas)
    gone = tuple(i for i in ids if command.broker_ids is None or i in command.broker_ids)
    spares = rules_of(state.rules_version).cleans_no_holder and not command.clean_living
    if spares and _anyone_holds(broker_set, command, set(gone)):
        return Decision(Refusal.CLEAN_IS_ALIVE)
    if not gone:
        return ACCEPTED_WITHOUT_CHANGE
    left = left_the_set(broker_set, gone, REASON_CLEANED, broker_set.highest_epoch_seen)
    cleaned = BrokersCleaned(command.broker_name, gone, whole_set=gone == ids)
    return Decision(changes=(*left, cleaned))


def _any_too_long(*texts: str | None) -> bool:
    return any(text is not None and len(text) > TEXT_CHARS_MAX for text in texts)


def _is_new_start(replica: Replica, command: RegisterBroker) -> bool:
    """A Java broker registers only when it starts, and names no incarnation (S6)."""
    return command.incarnation is None or command.incarnation != replica.incarnation


def _is_unclean_start(
    broker_set: BrokerSet, replica: Replica, command: RegisterBroker, rules: Rules
) -> bool:
    """Return whether this registration tells that its log cannot be trusted (S5).

    Of a start that is known already, a late repeat says so too. But who is alone in the set may
    have been chosen at risk without hearing of it: it refuses to lead, and until it is believed
    nobody elects anew.
    """
    if command.clean is not False:
        return False
    if _is_new_start(replica, command):
        return True
    is_trusted = broker_set.sync_state_set == (replica.broker_id,) and not broker_set.at_risk
    return rules.notices_going_back and is_trusted


def _went_back(broker_set: BrokerSet, replica: Replica, command: RegisterBroker) -> bool:
    """Return whether a former member's log lies below what this id registered with before, or
    showed since (S15).

    Its disk was lost with its identity kept, or it is an older copy. A former master that was cut
    below where it had begun, and starts again before it copied anything of the new epoch, looks the
    same: that one has to catch up once more, which it must anyway.
    """
    if command.last_epoch is None or command.end_offset is None:
        return False
    if not _is_new_start(replica, command):
        return False
    if is_below(broker_set, command) or is_below_heard(broker_set, command):
        return True
    if replica.last_epoch < 0:
        return False
    is_former = replica.broker_id in (*broker_set.former, *broker_set.sync_state_set)
    before = (replica.last_epoch, replica.end_offset)
    return is_former and (command.last_epoch, command.end_offset) < before


def _minimum(broker_set: BrokerSet, command: RegisterBroker) -> tuple[MinimumTold, ...]:
    """Return the change that keeps with how few members it acknowledges; 1 when it did not tell."""
    minimum = 1 if command.min_in_sync is None else command.min_in_sync
    minimum = max(1, min(minimum, REPLICAS_MAX))
    if broker_set.minimum_of(command.broker_id) == minimum:
        return ()
    return (MinimumTold(broker_set.broker_name, command.broker_id, minimum),)


def _registered(
    broker_set: BrokerSet,
    replica: Replica,
    command: RegisterBroker,
    highest: int,
    *,
    is_unclean: bool,
) -> BrokerRegistered:
    """Return the registration; what was unclean stays so until it is back in the set (S5)."""
    is_master = broker_set.master_broker_id == replica.broker_id
    return BrokerRegistered(
        broker_set.broker_name,
        replica.broker_id,
        command.broker_address,
        command.ha_address,
        command.incarnation,
        replica.clean and not is_unclean,
        UNKNOWN if command.last_epoch is None else command.last_epoch,
        UNKNOWN if command.end_offset is None else command.end_offset,
        is_master and _is_new_start(replica, command),
        highest,
    )


def _is_known_already(broker_set: BrokerSet, replica: Replica, new: BrokerRegistered) -> bool:
    if new.restarted_master and not broker_set.master_restarted:
        return False
    return (
        replica.is_registered
        and replica.end_offset == new.end_offset  # What differs most often goes first.
        and replica.last_epoch == new.last_epoch
        and replica.incarnation == new.incarnation
        and replica.clean == new.clean
        and replica.address == new.broker_address
        and replica.ha_address == new.ha_address
    )


def _anyone_alive(command: CleanBrokerData, ids: set[int]) -> bool:
    """Any sign of life counts here, of whichever incarnation: forgetting is the danger."""
    return any(entry.alive and entry.broker_id in ids for entry in command.evidence)


def _anyone_holds(broker_set: BrokerSet, command: CleanBrokerData, ids: set[int]) -> bool:
    """Return whether one of `ids` lives, or holds what was acknowledged although it is no member
    (S14).
    """
    return _anyone_alive(command, ids) or not ids.isdisjoint(broker_set.remembered)


def _same_set_anew(broker_set: BrokerSet, highest: int) -> SyncStateSetAltered:
    """Return the change that voids what a master thinks of a replica outside the set (S5).

    A proposal to take it in may rest on acknowledgements that it gave before it lost them; based
    on the former set epoch it is refused, and the master asks the replica anew.
    """
    return SyncStateSetAltered(
        broker_set.broker_name,
        broker_set.sync_state_set,
        broker_set.sync_state_set_epoch + 1,
        (),
        (),
        REASON_UNCLEAN_START,
        broker_set.unclean_members,
        highest,
    )


def left_the_set(
    broker_set: BrokerSet, gone: tuple[int, ...], reason: str, highest: int
) -> tuple[MasterCleared | SyncStateSetAltered, ...]:
    """Return the changes by which members leave without the master's asking.

    The master goes first, the members second: so every step keeps the invariants. Both epochs
    move, or a master that did not hear of it would go on with the old set. Of `gone` who lost data
    is unclean from here on, also where it was remembered only.
    """
    changes: list[MasterCleared | SyncStateSetAltered] = []
    if broker_set.master_broker_id is not None and broker_set.master_broker_id in gone:
        epoch = min(broker_set.master_epoch + 1, EPOCH_MAX)
        highest = max(highest, epoch)
        master = broker_set.master_broker_id
        changes.append(MasterCleared(broker_set.broker_name, master, epoch, reason, highest))
    left = tuple(i for i in broker_set.sync_state_set if i in gone)
    if left or reason == REASON_WENT_BACK:
        unclean = set(broker_set.unclean_members)
        unclean = unclean if reason == REASON_CLEANED else unclean | set(gone)
        changes.append(
            SyncStateSetAltered(
                broker_set.broker_name,
                tuple(i for i in broker_set.sync_state_set if i not in gone),
                broker_set.sync_state_set_epoch + 1,
                (),
                left,
                reason,
                tuple(sorted(unclean)),
                highest,
            )
        )
    return tuple(changes)
