"""What every broker event begins with (DESIGN 7)."""

from msgspec import Struct


class BrokerEventHeader(Struct, frozen=True, gc=False):
    """Which start of which broker reported an event, and when."""

    event_id: bytes
    cluster_name: str
    broker_name: str
    broker_id: int
    incarnation: str
    at_ms: int
    sequence: int
