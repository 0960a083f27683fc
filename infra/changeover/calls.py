"""Asking and telling brokers that change over (19018), and who a name server knows of a set.

Refuses to know: what is asked for, what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from brokers.changeover.order import Order
from brokers.membership.member_group import member_group_question, read_member_group
from brokers.process.changeover.change_over import BEGIN, FOLLOW, LOOK, WORD
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.changeover.facts import NO_ANSWER, NOT_OURS, Found, look_of
from infra.controllers.calls import NoAnswer, call
from infra.problems import Problem

ASKERS = 16


class NotNow(Problem):
    """A replica answered that it does not change over; nothing has changed."""


def members_of(name_servers: Sequence[str], name: str, timeout_ms: int) -> dict[int, str]:
    """Broker id to address, by all name servers that answer: one that has just started knows some
    of them only. Problem when none does.
    """
    said, found = "none is named", list[Mapping[int, str]]()
    for address in name_servers:
        try:
            found.append(
                read_member_group(call(address, member_group_question("", name), timeout_ms))
            )
        except (NoAnswer, ValueError) as error:
            said = f"{address}: {error}"
    if not found:
        raise Problem(f"no name server tells who is in {name} ({said})", "Is --namesrv right?")
    return {key: at for one in reversed(found) for key, at in one.items()}


def look(address: str, timeout_ms: int) -> Found:
    """What one broker says of itself. One that only begins, or passes on what comes, says nothing
    yet; who does not know the question is none of ours.
    """
    try:
        answer = call(address, _word(LOOK), timeout_ms)
        if answer.code == ResponseCode.SUCCESS:
            return look_of(fastjson.loads(answer.body))
        unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return NOT_OURS if unknown else NO_ANSWER
    except NoAnswer:
        return NO_ANSWER
    except ValueError:
        return NOT_OURS


def looks_of(addresses: Iterable[str], timeout_ms: int) -> dict[str, Found]:
    """Of many, at once."""
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(ASKERS) as askers:
        found = askers.map(lambda address: look(address, timeout_ms), wanted)
        return dict(zip(wanted, found, strict=True))


def begin(orders: Sequence[Order], timeout_ms: int) -> dict[str, str]:
    """The master gives up, and tells the others. NotNow when it does not, Problem when it does not
    say.
    """
    body = fastjson.dumps([one.document() for one in orders])
    return _told(orders[0].leader, _word(BEGIN, body), timeout_ms)


def follow(order: Order, timeout_ms: int) -> dict[str, str]:
    """A replica that was not told. NotNow when it does not follow, Problem when it does not say."""
    return _told(order.address, _word(FOLLOW, fastjson.dumps(order.document())), timeout_ms)


def _word(word: str, body: bytes = b"") -> RemotingCommand:
    return RemotingCommand.request(RequestCode.REGENT_CHANGE_OVER, {WORD: word}, body)


def _told(address: str, request: RemotingCommand, timeout_ms: int) -> dict[str, str]:
    try:
        answer = call(address, request, timeout_ms)
    except NoAnswer as error:
        raise Problem(
            f"{address}: {error}", "What became of it is not known: run this command again."
        ) from None
    if answer.code != ResponseCode.SUCCESS:
        raise NotNow(
            f"{address}: {answer.remark or answer.code}",
            "Put that right, then run this command again.",
        )
    return dict(answer.ext)
