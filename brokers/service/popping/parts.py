"""The parts of pop consumption of one broker, put together.

Responsible for: what each of them needs of the others. Refuses to know: what any of them does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from brokers.service.clients.groups import ClientGroups
from brokers.service.clients.wanted import Filters
from brokers.service.escape.away import Ways
from brokers.service.popping.ack_service import AckService
from brokers.service.popping.assignment_service import AssignmentService, Routes
from brokers.service.popping.collect import Collector
from brokers.service.popping.names import RETRY_V1, RETRY_V2, retry_topic
from brokers.service.popping.others_messages import Get
from brokers.service.popping.peek_service import PeekService
from brokers.service.popping.pop_service import MakeGroup, PopService
from brokers.service.popping.reading import QueueReader
from brokers.service.popping.revive import ReviveService
from brokers.service.popping.terms import PopSettings, PopTerms
from brokers.service.reading.cold_reads import ColdReads
from brokers.service.role.services import Service
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.integrity import BadRecord


class Popping:
    """For what it is given see those who use it. `in_turn(act)`: as `soon`, in a turn in which it
    may deliver.
    """

    def __init__(
        self,
        terms: PopTerms,
        cold: ColdReads,
        filters: Filters,
        repair: Callable[[BadRecord, str], object],
        first_held: Callable[[str, str], Awaitable[object]],
        make_group: MakeGroup,
        made: Callable[[list[TopicConfig]], None],
        soon: Callable[[Callable[[], None]], object],
        in_turn: Callable[[Callable[[], None]], object],
        groups: ClientGroups,
        routes: Routes | None,
        counts: Callable[[str, str, int, int], None],
        ways: Ways | None = None,
        get: Get | None = None,
    ) -> None:
        self.terms = terms
        reader = QueueReader(terms, cold, repair)
        self.collector = Collector(terms, reader, first_held)
        self.pops = PopService(terms, reader, self.collector, filters, make_group, counts)
        self.peeks = PeekService(terms, self.collector, self.pops.unreadable)
        self.pops.freed = self.peeks.wake
        self.acks = AckService(terms, self.pops.wake, soon)
        self.revive = ReviveService(terms, repair, in_turn, made, ways, get)
        self.assignments = AssignmentService(terms, groups, make_group, routes)

    def take_settings(self, settings: PopSettings) -> None:
        """An operator changed them; the name of new retry topics stays until the next start."""
        self.terms.settings = replace(settings, retry_v2=self.terms.settings.retry_v2)

    @property
    def services(self) -> tuple[Service, ...]:
        return self.pops, self.peeks, self.acks, self.revive, self.assignments

    def retry_topics(self, topic: str) -> list[str]:
        """Topics that go with this one: of the copies for all its groups."""
        tables = self.terms.tables
        names = [
            retry_topic(group, topic, kind)
            for group in tables.offsets.groups_of(topic)
            for kind in (RETRY_V1, RETRY_V2)
        ]
        return [name for name in names if tables.topics.get(name) is not None]

    def dispatched(self, topic: str, queue_id: int, max_offset: int) -> None:
        """A queue grew."""
        self.pops.dispatched(topic, queue_id, max_offset)
        self.peeks.dispatched(topic, queue_id)
