"""What the controller core wants done, as values.

Responsible for: the closed list of things a `ControllerCore` may ask of its surroundings.
Refuses to know: how any of them is done. The shell performs them in order; a simulation may delay
or lose what a real network or log would delay or lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokers.remoting.command import RemotingCommand
    from events.broker_events import BrokerEvent
    from events.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Append:
    """Append `data` to the command log; the result comes back by `on_append_result(command_id,
    …)`.
    """

    command_id: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request on the connection it came from. A closed connection drops it silently."""

    conn_id: int
    response: RemotingCommand
    status: str = "success"
    """For the metrics: a produced response is a success whatever its code; else failed or
    timeout.
    """


@dataclass(frozen=True, slots=True)
class NotifyRole:
    """Send a one-way 1008 to a broker's own listening address. Losing it is repaired by polls."""

    address: str
    command: RemotingCommand


@dataclass(frozen=True, slots=True)
class AskBroker:
    """Call a broker at its own listening address; the answer is `on_broker_answer(token, …)`."""

    token: int
    address: str
    request: RemotingCommand
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Try a TCP connection to `address`; the answer is `on_probe_result(address, …)`."""

    address: str


@dataclass(frozen=True, slots=True)
class AskEndOffset:
    """Ask the log for its end (the offset the next record will get); answer: `on_end_offset`."""

    token: int


@dataclass(frozen=True, slots=True)
class AskLastPublished:
    """Ask for the command offset of the newest published outcome (-1: none); answer:
    `on_last_published`.
    """

    token: int


@dataclass(frozen=True, slots=True)
class FoldAgain:
    """Fold the commands from `first` up to `end` (excluded) again, beside: their outcomes are not
    kept any more and must be published; answer: `on_folded_again`.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class ForwardToLeader:
    """Call the leader with a request of someone else; answer: `on_reply_from_leader(token, …)`."""

    token: int
    address: str
    request: RemotingCommand
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class TellPeer:
    """Send a one-way message to another controller; a failure comes back as `on_peer_closed`."""

    address: str
    command: RemotingCommand


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish an outcome, in the order given; the result comes back by `on_publish_result`."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Report:
    """Put a fact into the broker events. Losing it changes nothing."""

    fact: BrokerEvent


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close an inbound connection, with the reason for the log."""

    conn_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the process log. `level` is one of debug, info, warning, error."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class SetLogLevel:
    """From now on log at `level` (DEBUG … CRITICAL); `logger` None: everything of this process."""

    level: str
    logger: str | None


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop this process loudly: its state can no longer be trusted."""

    reason: str


Unusual = (
    NotifyRole
    | AskBroker
    | Probe
    | AskEndOffset
    | AskLastPublished
    | FoldAgain
    | ForwardToLeader
    | TellPeer
    | Report
    | CloseConnection
    | Note
    | SetLogLevel
    | Halt
)
"""What few requests lead to."""
Effect = Append | Reply | Publish | Unusual
