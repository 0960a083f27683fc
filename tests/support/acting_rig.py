"""One broker of a set without controllers, by hand: what happens goes in, effects come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from brokers.acting import effects as fx
from brokers.acting.config import ActingConfig
from brokers.acting.core import ActingCore
from brokers.acting.ha_links import HaLink
from brokers.acting.messages import CouldNotAnswer, HaInfo, MemberAnswer, Members, Place, Registered
from brokers.acting.reverse_sync import Tables

CLUSTER, SET = "c1", "broker-a"
ADDRESSES = {number: f"10.0.0.{number + 1}:10911" for number in range(6)}
HA = {number: f"10.0.0.{number + 1}:10912" for number in range(6)}
NAME_SERVER = "n1:9876"
SILENT = CouldNotAnswer("no answer")
NO_LINKS = HaInfo()

Kind = TypeVar("Kind")


def group(*ids: int, up_ms: int | None = None, **others: str) -> Members:
    """Members under their usual addresses."""
    known = {number: ADDRESSES[number] for number in ids}
    return Members(known | {int(key[1:]): address for key, address in others.items()}, up_ms)


class ActingRig:
    """`now_ms` is the time of everything that happens; chance is always 0.5."""

    def __init__(
        self,
        own_id: int,
        name_servers: tuple[str, ...] = (NAME_SERVER,),
        *,
        nothing_to_lose: bool = False,
        **settings: object,
    ) -> None:
        place = Place(CLUSTER, SET, own_id, ADDRESSES[own_id])
        self.config = ActingConfig(place, HA[own_id], name_servers, **settings)  # type: ignore[arg-type]
        self.now_ms = 1_000_000
        self.core = ActingCore(self.config, self.now_ms, nothing_to_lose=nothing_to_lose)
        self.done: list[fx.Effect] = []

    def note(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        self.done += effects
        return effects

    def start(self) -> list[fx.Effect]:
        return self.note(self.core.start(self.now_ms))

    def tick(self, after_ms: int = 0) -> list[fx.Effect]:
        self.now_ms += after_ms
        return self.note(self.core.tick(self.now_ms, 0.5))

    def hear(
        self, answer: MemberAnswer, name_server: str = NAME_SERVER, *, after_ms: int = 0
    ) -> list[fx.Effect]:
        """An answer to a question of this moment."""
        self.now_ms += after_ms
        return self.note(
            self.core.members_answered(name_server, answer, self.now_ms, self.now_ms, 0.5)
        )

    def register(self, answer: Registered | None = None) -> list[fx.Effect]:
        """The registration is done, a moment before whatever comes next."""
        found = self.note(self.core.registered(answer or Registered(), self.now_ms))
        self.now_ms += 1
        return found

    def link(
        self, *links: HaLink, hosts: Mapping[str, frozenset[str]] | None = None
    ) -> list[fx.Effect]:
        return self.note(self.core.links_are(links, hosts or {}, self.now_ms, 0.5))

    def linked(self, *ids: int) -> list[fx.Effect]:
        """Links of these members, from their own hosts, alive."""
        return self.link(*(ha_link(number, self.now_ms) for number in ids))

    def online(self, *others: int) -> ActingRig:
        """Online beside these members, who all live."""
        self.start()
        if not self.config.is_master or not others:
            self.hear(group(self.config.place.broker_id, *others, up_ms=10**9))
        if self.config.is_master and others:
            self.come_back(*others)
        elif not self.config.is_master and 0 in others:
            told_ha(self)
        assert not self.core.isolated, self.core.waits_for
        self.register()
        self.hear(group(self.config.place.broker_id, *others))
        self.done.clear()
        return self

    def come_back(self, *others: int, tables: Tables | None = None) -> None:
        """A master's whole way back, beside these members."""
        self.hear(group(*others))
        effects: list[fx.Effect] = []
        for push in of(self.done, fx.PushHaInfo):
            effects += self.note(self.core.pushed(push.token, True, self.now_ms, 0.5))
        effects += self.linked(*(number for number in others if number))
        taken: list[fx.TakeTables] = []
        for fetch in of(effects, fx.FetchTables):
            found = self.core.fetched(fetch.token, tables or Tables(), self.now_ms, 0.5)
            taken += of(self.note(found), fx.TakeTables)
        for take in taken:
            self.note(self.core.taken(take.token, True, self.now_ms, 0.5))


def ha_link(number: int, heard_ms: int, opened_ms: int | None = None) -> HaLink:
    """A link of a member, from its own host."""
    host = ADDRESSES[number].split(":", maxsplit=1)[0]
    return HaLink(number, host, heard_ms if opened_ms is None else opened_ms, True, heard_ms)


def of(effects: Iterable[fx.Effect], kind: type[Kind]) -> list[Kind]:
    """The effects of one kind."""
    return [one for one in effects if isinstance(one, kind)]


def told_ha(rig: ActingRig, info: HaInfo | None = NO_LINKS) -> list[fx.Effect]:
    """The last question about HA addresses is answered so; as a rule, that none are taken."""
    (*_, ask) = of(rig.done, fx.AskHaInfo)
    return rig.note(rig.core.ha_info_told(ask.token, info, rig.now_ms, 0.5))
