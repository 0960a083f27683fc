"""Serving assignments: 400, 401 (PROTOCOL 4.9); 402 is one of the kept tables.

Responsible for: routes that are asked for once in a while, modes that are on disk when they are
answered. Refuses to know: the strategies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.fields import BadField
from brokers.service.clients.groups import ClientGroups
from brokers.service.popping.assignment import (
    Queue,
    answer_body,
    assigned,
    mode_of,
    parse_mode,
    parse_query,
    with_mode,
)
from brokers.service.popping.pop_service import MakeGroup
from brokers.service.popping.terms import PopTerms
from brokers.service.role.services import Served, Service, Where
from brokers.service.tables.topics import PERM_READ, RETRY_PREFIX

ROUTE_KEPT_MS = 30_000
ROUTES_MAX = 20_000
QUEUES_MAX = 65_536

Route = Mapping[str, int]
"""Broker name to its queues that may be read."""
Routes = Callable[[str], Awaitable[Route | None]]


class AssignmentService(Service):
    """`routes(topic)`: what the name servers say, None when none of them answers; without it, this
    broker's own queues are all there are.
    """

    def __init__(
        self, terms: PopTerms, groups: ClientGroups, make_group: MakeGroup, routes: Routes | None
    ) -> None:
        self._terms = terms
        self._groups = groups
        self._make_group = make_group
        self._routes = routes
        self._known: dict[str, tuple[int, Route]] = {}

    def serves(self) -> dict[int, Served]:
        """A client asks any broker; modes are the master's."""
        return {
            RequestCode.QUERY_ASSIGNMENT: Served(self.query),
            RequestCode.SET_MESSAGE_REQUEST_MODE: Served(
                self.set_mode, Where.MASTER, writes=True, repeatable=True
            ),
        }

    async def query(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """400."""
        try:
            ask = parse_query(request.body)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        table = self._terms.tables.kept.table(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        mode = mode_of(table, ask.topic, ask.group)
        route = await self._route(ask.topic)
        queues = [
            Queue(ask.topic, broker, queue_id)
            for broker, count in route.items()
            for queue_id in range(min(count, QUEUES_MAX))
        ]
        found = assigned(ask, mode, queues, self._groups.client_ids(ask.group))
        return request.reply(body=answer_body(found if queues else None, mode))

    async def _route(self, topic: str) -> Route:
        now_ms = self._terms.clock.now_ms()
        known = self._known.get(topic)
        if known is not None and now_ms - known[0] < ROUTE_KEPT_MS:
            return known[1]
        route = None if self._routes is None else await self._routes(topic)
        if route is None:
            # name servers that do not answer change no route
            return self._own(topic) if known is None else known[1]
        if len(self._known) >= ROUTES_MAX:
            self._known.clear()
        self._known[topic] = now_ms, route
        return route

    def _own(self, topic: str) -> Route:
        config = self._terms.tables.topics.get(topic)
        if config is None or not config.perm & PERM_READ:
            return {}
        return {self._terms.broker_name: config.read_queues}

    async def set_mode(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """401: on this disk when it is answered."""
        try:
            ask = parse_mode(request.body)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        tables = self._terms.tables
        if ask.topic.startswith(RETRY_PREFIX):
            return request.reply(
                ResponseCode.NO_PERMISSION, remark="retry topic is not allowed to set mode"
            )
        if tables.topics.get(ask.topic) is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{ask.topic}] not exist"
            )
        kept, code = tables.kept, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        try:
            if tables.groups.get(ask.group) is None:
                refused = await self._make_group({"groupName": ask.group})
                if refused is not None:
                    return request.reply(refused.code, remark=refused.remark)
        except ValueError as error:
            return request.reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=str(error))
        try:
            kept.put(code, with_mode(kept.table(code), ask), None)
            await asyncio.to_thread(kept.save)
        except (ValueError, OSError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return request.reply()
