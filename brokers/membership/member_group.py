"""Who of a set is registered, by the word of a name server (901).

Responsible for: the question, and reading the answer, whatever it holds. Refuses to know: who is
asked, what follows.
"""

from __future__ import annotations

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand

MEMBERS_MAX = 1_024
ADDRESS_CHARS_MAX = 512


def member_group_question(cluster_name: str, broker_name: str) -> RemotingCommand:
    """901."""
    ext = {"clusterName": cluster_name, "brokerName": broker_name}
    return RemotingCommand.request(RequestCode.GET_BROKER_MEMBER_GROUP, ext)


def read_member_group(answer: RemotingCommand) -> dict[int, str]:
    """Broker id to address; empty where the set is not known. ValueError when it is not told."""
    if answer.code != ResponseCode.SUCCESS:
        raise ValueError(answer.remark or f"code {answer.code}")
    body = fastjson.loads(answer.body)
    group = body.get("brokerMemberGroup") if isinstance(body, dict) else None
    addresses = group.get("brokerAddrs") if isinstance(group, dict) else None
    if not isinstance(addresses, dict) or len(addresses) > MEMBERS_MAX:
        raise ValueError("no group of brokers")
    found = {}
    for key, address in addresses.items():
        text = str(key)
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise ValueError(f"{text[:20]!r} is no broker id")
        if not isinstance(address, str) or len(address) > ADDRESS_CHARS_MAX:
            raise ValueError("an address that is none")
        found[int(text)] = address
    return found
