"""Decides that the log may be older than what happened, and when a set is certain again (design
S11).

A log that lost its newest decisions (it was made anew from tables that had not landed all, or all
nodes that held them lost their power) says nothing reliable about members, masters and epochs. So a
set that is doubted has neither master nor members, and an epoch above all that the lost decisions
may have given away. Whoever has heard of that epoch follows and acknowledges nobody of before (S8):
only from then on does its word count (`liveness`), so the logs that are compared grow no more. All
that were replicas are waited for, whatever the log calls them, and the longest (epoch, end) of all
leads.

Why nothing is lost then if each of them is there with its own disk, and started clean: let M be who
led last before the doubt. M held all that had been acknowledged when it was elected (S1, S7), and
all that it acknowledged itself. Its epoch entry was durable before its first byte (S8, S13), no
later epoch has bytes, and whoever has that entry copied M's log from its beginning on: M has the
longest end in the highest epoch, or another one has the same. If M died before it wrote its entry,
it acknowledged nothing, and the same is true of the master before it. The winner holds what M
holds.

That fails, and the election says AT_RISK, when one of them is missing (an operator ended the wait,
or a later replica took its place), has gone since, started unclean, or is a broker of Java's: it
does not tell whether it lost its power, and may have acknowledged alone. A replica whose id was
given out by a lost decision is not known here and cannot be waited for; it says so itself, since
its registration is refused. An epoch that a shorter log gave away a second time, before a broker's
report stopped the controller, is beyond this, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from events.changes import SetDoubted
from events.commands import DoubtBrokerSet
from processors.fold.refusals import Decision, Refusal
from processors.fold.rules import rules_of
from processors.fold.state import EPOCH_MAX, EPOCH_REACH, BrokerSet, ControllerState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from processors.fold.candidates import Candidate

LIFTED_BY = EPOCH_REACH
"""As far as a report of a broker is believed: what is reported above it stops a controller again,
and is lifted again.
"""


def doubt_broker_set(state: ControllerState, command: DoubtBrokerSet) -> Decision:
    """Take master and members away until they are proven anew; ids and their check codes stay."""
    broker_set = state.live_set(command.broker_name)
    if not rules_of(state.rules_version).doubts_sets or not 0 < command.epochs_lifted <= LIFTED_BY:
        return Decision(Refusal.DOUBT_INVALID)
    if broker_set is None:
        return Decision(Refusal.NO_SUCH_SET)
    highest = _lifted(
        max(broker_set.highest_epoch_seen, broker_set.master_epoch), command.epochs_lifted
    )
    doubted = SetDoubted(
        broker_set.broker_name,
        tuple(replica.broker_id for replica in broker_set.replicas),
        highest,
        _lifted(broker_set.sync_state_set_epoch, command.epochs_lifted),
        highest,
    )
    return Decision(changes=(doubted,))


def is_proven_anew(broker_set: BrokerSet, candidates: Iterable[Candidate]) -> bool:
    """Return whether all replicas of an uncertain set are there and none can have lost anything.

    Then the longest of them holds all that was acknowledged (the argument stands above).
    """
    if not broker_set.uncertain or broker_set.unclean_members:
        return False
    sound = {c.broker_id for c in candidates if c.is_alive and _is_sound(c)}
    return sound.issuperset(broker_set.uncertain)


def _is_sound(candidate: Candidate) -> bool:
    replica = candidate.replica
    return replica.is_registered and replica.clean and replica.is_regent


def _lifted(epoch: int, by: int) -> int:
    """Return the epoch above, as long as one is left for the next master."""
    return max(epoch, min(epoch + by, EPOCH_MAX - 1))
