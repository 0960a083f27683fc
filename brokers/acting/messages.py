"""What brokers and name servers of sets without controllers tell each other: 904 and 322 as
heartbeats, 901 and 105 for the members of a set, 905, 906, the answer to 103 (PROTOCOL 7.1).

Responsible for: these headers and bodies, both ways, within limits. Refuses to know: who sends them
when, and what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import NAME_CHARS_MAX, BadField, Fields, number_or_none
from brokers.remoting.java_numbers import whole_number
from brokers.service.tables.data_version import DataVersion

MASTER_ID = 0
MEMBERS_MAX = 1_000
SYNC_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Every broker registers this topic, with its name behind it: by its route an old name server tells
the members of a set.
"""
UP_MS = "regentUpMs"
"""Ours, of an answer to 901: for how long the name server has been listening."""
COMES_BACK = "regentComesBack"
"""Ours, of 906: who asks is about to deliver in place of who is asked, and copies its tables next.
"""
DELIVERS = "regentDelivers"
"""Ours, of the answer to 906: the master that answers delivers what is due."""


@dataclass(frozen=True, slots=True)
class Place:
    """A broker as name servers know it. `address`: host:port where it serves clients."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str


@dataclass(frozen=True, slots=True)
class Members:
    """A name server's answer: id -> address. Nobody, when it is empty. `up_ms`: for how long it has
    been listening, None when it does not say.
    """

    addresses: Mapping[int, str]
    up_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CouldNotAnswer:
    """No answer, or none that says who is there. `old`: the name server does not know 901."""

    reason: str
    old: bool = False


MemberAnswer = Members | CouldNotAnswer


@dataclass(frozen=True, slots=True)
class MinIdNotice:
    """905: another id is the smallest of a set."""

    min_id: int | None = None
    min_address: str | None = None
    offline_address: str | None = None
    ha_address: str | None = None
    broker_name: str | None = None


@dataclass(frozen=True, slots=True)
class HaInfo:
    """906: where a master takes links, and from which offset its log ended when it was opened.
    `comes_back`: of a slave with a smaller id than who acts; a master says it by its addresses.
    `delivers`: of the answer of a master.
    """

    ha_address: str | None = None
    flushed_offset: int | None = None
    master_address: str | None = None
    comes_back: bool = False
    delivers: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to 103: the set's master, as far as that name server knows one."""

    master_address: str | None = None
    ha_address: str | None = None


# -- heartbeats ------------------------------------------------------------------------------------


def heartbeat(place: Place, version: DataVersion, *, compat: bool) -> RemotingCommand:
    """One-way: 904, or for old name servers 322 with the version of the topic table."""
    if compat:
        return data_version_query(place, version, oneway=True)
    ext = {
        "clusterName": place.cluster_name,
        "brokerAddr": place.address,
        "brokerName": place.broker_name,
        "brokerId": str(place.broker_id),
    }
    return RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext, oneway=True)


def data_version_query(
    place: Place, version: DataVersion, *, oneway: bool = False
) -> RemotingCommand:
    """322."""
    ext = {
        "brokerName": place.broker_name,
        "brokerAddr": place.address,
        "clusterName": place.cluster_name,
        "brokerId": str(place.broker_id),
    }
    body = fastjson.dumps(version.to_wire())
    return RemotingCommand.request(RequestCode.QUERY_DATA_VERSION, ext, body, oneway)


def read_place(request: RemotingCommand) -> Place:
    """Of 904, where the id may be missing (−1 then), and of 322. BadField."""
    fields = Fields(request.ext)
    required = request.code == RequestCode.QUERY_DATA_VERSION
    broker_id = fields.number("brokerId", None if required else -1)
    return Place(
        fields.text("clusterName"), fields.text("brokerName"), broker_id, fields.text("brokerAddr")
    )


def data_version_answer(
    request: RemotingCommand, own: DataVersion, known: DataVersion | None
) -> RemotingCommand:
    """To 322: whether the broker has to register again, and what is known of it."""
    changed = known is None or known != own
    body = b"" if known is None else fastjson.dumps(known.to_wire())
    return request.reply(ext={"changed": "true" if changed else "false"}, body=body)


def read_data_version_answer(answer: RemotingCommand) -> tuple[bool, DataVersion | None]:
    """(changed, what the name server knows; None: nothing). BadField, JsonRejected."""
    changed = Fields(answer.ext).optional_flag("changed")
    if changed is None:
        raise BadField("the field changed is missing")
    known = DataVersion.from_wire(fastjson.loads(answer.body)) if answer.body else None
    return changed, known


# -- members ---------------------------------------------------------------------------------------


def members_request(place: Place, *, compat: bool) -> RemotingCommand:
    """901, or for old name servers the route of the set's own topic (105)."""
    if compat:
        ext = {"topic": SYNC_TOPIC_PREFIX + place.broker_name, "acceptStandardJsonOnly": "true"}
        return RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
    ext = {"clusterName": place.cluster_name, "brokerName": place.broker_name}
    return RemotingCommand.request(RequestCode.GET_BROKER_MEMBER_GROUP, ext)


def members_body(cluster_name: str, broker_name: str, addresses: Mapping[int, str]) -> bytes:
    """The body that answers 901."""
    group = {
        "brokerAddrs": {str(key): addresses[key] for key in sorted(addresses)},
        "brokerName": broker_name,
        "cluster": cluster_name,
    }
    return fastjson.dumps({"brokerMemberGroup": group})


def read_members(answer: RemotingCommand, place: Place, *, compat: bool) -> MemberAnswer:
    """What a name server's answer says of the set of `place`; never an exception.

    A route that is not there says that nobody of the set is registered, as an empty group does.
    Every other answer that is none says nothing: RocketMQ takes it for an empty group.
    """
    if compat and answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return Members({}, number_or_none(answer.ext, UP_MS))
    if answer.code != ResponseCode.SUCCESS:
        old = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return CouldNotAnswer((answer.remark or f"code {answer.code}")[:200], old)
    try:
        body = fastjson.loads(answer.body)
        found = _of_route(body, place) if compat else _of_group(body)
        return Members(_addresses(found), number_or_none(answer.ext, UP_MS))
    except ValueError as error:
        return CouldNotAnswer(str(error)[:200])


def _of_group(body: object) -> object:
    group = body.get("brokerMemberGroup") if isinstance(body, Mapping) else None
    if not isinstance(group, Mapping):
        raise ValueError("the body names no group")
    return group.get("brokerAddrs", {})


def _of_route(body: object, place: Place) -> object:
    """Of the broker data whose name and cluster are ours; nobody without one."""
    listed = body.get("brokerDatas", []) if isinstance(body, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("the body is no route")
    for data in listed[:MEMBERS_MAX]:
        if (
            isinstance(data, Mapping)
            and data.get("brokerName") == place.broker_name
            and data.get("cluster") == place.cluster_name
        ):
            return data.get("brokerAddrs", {})
    return {}


def _addresses(found: object) -> dict[int, str]:
    if not isinstance(found, Mapping):
        raise ValueError("brokerAddrs is no object")
    if len(found) > MEMBERS_MAX:
        raise ValueError(f"{len(found)} members, allowed are {MEMBERS_MAX}")
    addresses: dict[int, str] = {}
    for key, address in found.items():
        broker_id = whole_number(str(key))
        if broker_id is None or broker_id < 0:
            raise ValueError(f"{str(key)[:40]!r} is no broker id")
        if not isinstance(address, str) or not 0 < len(address) <= NAME_CHARS_MAX:
            raise ValueError(f"broker {broker_id} has no address")
        addresses[broker_id] = address
    return dict(sorted(addresses.items()))


# -- the smallest id, and where a master takes links -----------------------------------------------


def min_id_notice(notice: MinIdNotice) -> RemotingCommand:
    """905, one-way."""
    ext = {
        "minBrokerId": _text(notice.min_id),
        "brokerName": notice.broker_name,
        "minBrokerAddr": notice.min_address,
        "offlineBrokerAddr": notice.offline_address,
        "haBrokerAddr": notice.ha_address,
    }
    return RemotingCommand.request(
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, _present(ext), b"", True
    )


def read_min_id_notice(ext: Mapping[str, str]) -> MinIdNotice:
    """BadField: an id that is no number, or a name that is too long."""
    fields = Fields(ext)
    min_id = fields.optional_number("minBrokerId")
    if min_id is not None and min_id < 0:
        raise BadField("the field minBrokerId is below 0")
    return MinIdNotice(
        min_id,
        fields.optional("minBrokerAddr"),
        fields.optional("offlineBrokerAddr"),
        fields.optional("haBrokerAddr"),
        fields.optional("brokerName"),
    )


def ha_info_query() -> RemotingCommand:
    """906 without fields: a question to a master."""
    return RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO)


def ha_info_push(info: HaInfo) -> RemotingCommand:
    """906 with fields: a master says where it takes links, or a slave that it comes back.
    ValueError: neither.
    """
    if not info.ha_address and not info.comes_back:
        raise ValueError("without an address it would be a question")
    return RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO, ha_info_ext(info))


def ha_info_ext(info: HaInfo) -> dict[str, str]:
    """The fields of 906, of a request and of an answer alike."""
    return _present(
        {
            "masterHaAddress": info.ha_address,
            "masterFlushOffset": _text(info.flushed_offset),
            "masterAddress": info.master_address,
            COMES_BACK: "true" if info.comes_back else None,
            DELIVERS: "true" if info.delivers else None,
        }
    )


def read_ha_info(ext: Mapping[str, str]) -> HaInfo:
    """Of a request or an answer; without `ha_address` a request is a question. BadField."""
    fields = Fields(ext)
    return HaInfo(
        fields.optional("masterHaAddress"),
        fields.optional_number("masterFlushOffset"),
        fields.optional("masterAddress"),
        fields.optional_flag(COMES_BACK) or False,
        fields.optional_flag(DELIVERS) or False,
    )


def read_registered(answer: RemotingCommand) -> Registered:
    """Of an answer to 103. BadField."""
    fields = Fields(answer.ext)
    return Registered(fields.optional("masterAddr"), fields.optional("haServerAddr"))


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _present(ext: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in ext.items() if value is not None}
