"""Messages between members: late, lost, doubled, out of order, cut off one way or both.

Responsible for: calls with answers, each heard once, None after the time for a call; what a member
of Java's kind leaves out of its messages. Refuses to know: what is said.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from brokers.majority.wire import json_bodies
from brokers.majority.wire.messages import (
    HeartBeatResponse,
    PushRequest,
    PushResponse,
    Request,
    Response,
)
from tests.simulation.world import World

CALL_MS = 3_000
CODED_ONE_IN = 24


class Links:
    """`loss`, `doubles`: one in so many, 0 for none. `slow_ms`: the longest way."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cuts: set[tuple[str, str]] = set()
        self.loss = self.doubles = 0
        self.slow_ms = 4

    def cut(self, one: str, other: str, both: bool = True) -> None:
        self.cuts.add((one, other))
        if both:
            self.cuts.add((other, one))

    def carry(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        """`arrive` happens once, later; or twice, or never."""
        world = self.world
        if self.loss and world.one_in(self.loss):
            world.count("message.lost")
            return
        times = 2 if self.doubles and world.one_in(self.doubles) else 1
        world.count("message.doubled", times - 1)
        for _ in range(times):
            world.after(
                world.between(1, self.slow_ms), lambda: self._arrive(source, target, arrive)
            )

    def _arrive(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        if (source, target) in self.cuts:
            self.world.count("message.cut")
        else:
            arrive()


def request_over(world: World, request: Request, plain: bool, binary: bool) -> Request:
    """As it arrives; `plain`: one end knows Java's fields only."""
    if plain and isinstance(request, PushRequest):
        request = structs.replace(request, previous=None, counts_current=False)
    if world.one_in(CODED_ONE_IN):
        world.count("message.coded")
        code = json_bodies.code_of(request)
        coded = json_bodies.encode(request)
        if binary and isinstance(request, PushRequest) and not plain:
            coded = json_bodies.encode_binary(request)
        return json_bodies.decode_request(code, coded)
    return request


def response_over(world: World, code: int, response: Response, plain: bool, old: bool) -> Response:
    """As it arrives; an old member leaves out how many entries it took."""
    if plain and isinstance(response, PushResponse):
        response = structs.replace(
            response,
            end_term=None,
            conflict=None,
            takes_binary=False,
            count=0 if old else response.count,
        )
    if plain and isinstance(response, HeartBeatResponse):
        response = structs.replace(response, end=None)
    if world.one_in(CODED_ONE_IN):
        return json_bodies.decode_response(code, json_bodies.encode(response))
    return response
