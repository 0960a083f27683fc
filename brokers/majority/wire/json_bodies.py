"""Bodies of requests and answers, in JSON as Java's DLedger 0.3.1.2 writes and reads them, and
pushes with their entries in binary among ours.

Responsible for: both directions, byte by byte what Java's fastjson makes of the same fields, ours
added under `regent*` names, which Java passes over (PROTOCOL 10.2, 10.3). Refuses to know: frames,
and who is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from msgspec import structs

from brokers.majority.entry import NONE, Entry, Place
from brokers.majority.wire import entry_batch
from brokers.majority.wire.codes import MajorityRequest, PushType, VoteResult
from brokers.majority.wire.json_fields import (
    Fields,
    MessageRejected,
    base64_of,
    bytes_of,
    entry_fields,
    entry_of,
    name_of,
    number,
    object_of,
    optional_number,
)
from brokers.majority.wire.messages import (
    AppendRequest,
    AppendResponse,
    GetRequest,
    GetResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
    PushRequest,
    PushResponse,
    Request,
    Response,
    TransferRequest,
    TransferResponse,
    VoteRequest,
    VoteResponse,
)
from brokers.remoting import fastjson

ENTRIES_MAX = entry_batch.ENTRIES_MAX
"""Of one push, in JSON as in binary. Java sends 4 KiB of entries at once: 85 without a body."""
PEERS_MAX = 64
SMALL_BYTES_MAX = 65_536
# The largest entry is 4 MiB, and a third more in Base64.
LARGE_BYTES_MAX = 8 << 20
_CODE_MIN, _CODE_MAX = -(1 << 31), (1 << 31) - 1


def encode(message: Request | Response) -> bytes:
    """The body of a frame."""
    fields: dict[str, object] = {
        "code": int(message.code),
        "group": message.group,
        "leaderId": message.leader_id,
        "localId": message.local_id,
        "remoteId": message.remote_id,
        "term": message.term,
    }
    fields.update(_own_fields(message))
    return fastjson.dumps(fields)


def encode_binary(push: PushRequest) -> bytes:
    """The same push with its entries behind the JSON: a third shorter, and no Base64 to make. For a
    member that said `takes_binary` only.
    """
    head = encode(structs.replace(push, entries=()))
    return entry_batch.join(head, push.entries)


def decode_request(code: int, body: bytes) -> Request:
    """The request that came with this code of a frame. MessageRejected: it is none."""
    try:
        kind = MajorityRequest(code)
    except ValueError:
        raise MessageRejected(f"{code} is no request of a majority group") from None
    if kind is MajorityRequest.PUSH and entry_batch.is_binary(body):
        head, entries = entry_batch.part(body)
        return _push_request(_read(head, False), entries)
    return _REQUESTS[kind](_read(body, kind in _LARGE))


def decode_response(code: int, body: bytes) -> Response:
    """The answer to a request with this code of a frame. MessageRejected: it is none."""
    return _RESPONSES[MajorityRequest(code)](_read(body, code == MajorityRequest.GET))


def code_of(request: Request) -> MajorityRequest:
    """The code of a frame that carries it."""
    return _CODES[type(request)]


def _read(body: bytes, large: bool) -> Fields:
    try:
        value = fastjson.loads(body, LARGE_BYTES_MAX if large else SMALL_BYTES_MAX)
    except fastjson.JsonRejected as error:
        raise MessageRejected(str(error)) from None
    return object_of(value)


# -- what each adds to the fields of all -----------------------------------------------------------


def _own_fields(message: Request | Response) -> Mapping[str, object]:
    match message:
        case PushRequest():
            return _push_request_fields(message)
        case PushResponse():
            return _push_response_fields(message)
        case VoteRequest():
            return {"ledgerEndIndex": message.end.index, "ledgerEndTerm": message.end.term}
        case VoteResponse():
            return {"voteResult": message.result.value}
        case HeartBeatResponse():
            return _place_fields("regentEnd", message.end)
        case AppendRequest():
            return {"body": base64_of(message.body)}
        case AppendResponse():
            return {"index": message.index, "pos": message.pos}
        case GetRequest():
            return {"beginIndex": message.begin_index, "maxSize": 0}
        case GetResponse():
            return {"entries": [entry_fields(entry) for entry in message.entries]}
        case MetadataResponse():
            return {
                "peers": message.peers,
                "regentCommittedIndex": message.committed_index,
                **_place_fields("regentEnd", message.end),
            }
        case TransferRequest():
            return {
                "takeLeadershipLedgerIndex": message.ledger_index,
                "transferId": message.transfer_id,
                "transfereeId": message.transferee_id,
            }
        case _:
            return {}


def _push_request_fields(push: PushRequest) -> Mapping[str, object]:
    entries = push.entries
    batch = entries if len(entries) > 1 else ()
    return {
        "batch": bool(batch),
        "batchEntry": [entry_fields(entry) for entry in batch],
        "commitIndex": push.commit_index,
        "count": len(entries),
        "entry": entry_fields(entries[0]) if len(entries) == 1 else None,
        "firstEntryIndex": push.first_index,
        "lastEntryIndex": push.last_index,
        "totalSize": sum(entry.size for entry in batch),
        "type": push.type.value,
        "regentCountsCurrent": True if push.counts_current else None,
        **_place_fields("regentPrevious", push.previous),
    }


def _push_response_fields(answer: PushResponse) -> Mapping[str, object]:
    return {
        "beginIndex": answer.begin_index,
        "count": answer.count,
        "endIndex": answer.end_index,
        "index": answer.index,
        "regentEndTerm": answer.end_term,
        "regentTakesBinary": True if answer.takes_binary else None,
        **_place_fields("regentConflict", answer.conflict),
    }


def _place_fields(name: str, place: Place | None) -> dict[str, object]:
    if place is None:
        return {}
    return {f"{name}Index": place.index, f"{name}Term": place.term}


# -- and back --------------------------------------------------------------------------------------


def _base(fields: Fields) -> dict[str, object]:
    return {
        "group": name_of(fields, "group"),
        "remote_id": name_of(fields, "remoteId"),
        "local_id": name_of(fields, "localId"),
        "leader_id": name_of(fields, "leaderId"),
        "term": number(fields, "term", NONE),
        "code": number(fields, "code", 200, _CODE_MIN, _CODE_MAX),
    }


def _place(fields: Fields, name: str) -> Place | None:
    index, term = (optional_number(fields, f"{name}{part}") for part in ("Index", "Term"))
    return None if index is None or term is None else Place(term, index)


def _vote_request(fields: Fields) -> Request:
    end = Place(number(fields, "ledgerEndTerm", NONE), number(fields, "ledgerEndIndex", NONE))
    return VoteRequest(**_base(fields), end=end)  # type: ignore[arg-type]


def _vote_response(fields: Fields) -> Response:
    try:
        result = VoteResult(fields.get("voteResult", "UNKNOWN"))
    except ValueError:
        # Of another release, as a name of 2019 with two underscores: no vote, whatever it says.
        result = VoteResult.UNKNOWN
    return VoteResponse(**_base(fields), result=result)  # type: ignore[arg-type]


def _heartbeat_response(fields: Fields) -> Response:
    return HeartBeatResponse(**_base(fields), end=_place(fields, "regentEnd"))  # type: ignore[arg-type]


def _push_request(fields: Fields, beside: tuple[Entry, ...] = ()) -> Request:
    try:
        kind = PushType(fields.get("type", "APPEND"))
    except ValueError:
        raise MessageRejected("a push of an unknown type") from None
    batch = fields.get("batchEntry") or []
    if not isinstance(batch, list) or len(batch) > ENTRIES_MAX:
        raise MessageRejected(f"batchEntry is no list of up to {ENTRIES_MAX} entries")
    alone = fields.get("entry")
    # Java looks at the single entry only where there is no batch.
    entries = beside or tuple(map(entry_of, batch or ([] if alone is None else [alone])))
    _check_entries(kind, entries)
    return PushRequest(
        **_base(fields),  # type: ignore[arg-type]
        type=kind,
        commit_index=number(fields, "commitIndex", NONE),
        entries=() if kind is PushType.COMMIT else entries,
        previous=_place(fields, "regentPrevious"),
        counts_current=fields.get("regentCountsCurrent") is True,
    )


def _check_entries(kind: PushType, entries: tuple[Entry, ...]) -> None:
    """Each follows the one before it, without a gap and without a smaller term."""
    if not entries if kind is PushType.APPEND else kind in _ONE_ENTRY and len(entries) != 1:
        raise MessageRejected(f"{kind.value} with {len(entries)} entries")
    for before, entry in pairwise(entries):
        if entry.index != before.index + 1 or entry.term < before.term:
            raise MessageRejected(f"entry {entry.index} does not follow {before.index}")


def _push_response(fields: Fields) -> Response:
    return PushResponse(
        **_base(fields),  # type: ignore[arg-type]
        index=optional_number(fields, "index"),
        begin_index=number(fields, "beginIndex", 0),
        end_index=number(fields, "endIndex", 0),
        count=number(fields, "count", 0, 0, ENTRIES_MAX),
        end_term=optional_number(fields, "regentEndTerm"),
        conflict=_place(fields, "regentConflict"),
        takes_binary=fields.get("regentTakesBinary") is True,
    )


def _append_response(fields: Fields) -> Response:
    index, pos = number(fields, "index", NONE), number(fields, "pos", NONE)
    return AppendResponse(**_base(fields), index=index, pos=pos)  # type: ignore[arg-type]


def _get_response(fields: Fields) -> Response:
    entries = fields.get("entries") or []
    if not isinstance(entries, list) or len(entries) > ENTRIES_MAX:
        raise MessageRejected(f"entries is no list of up to {ENTRIES_MAX} entries")
    return GetResponse(**_base(fields), entries=tuple(map(entry_of, entries)))  # type: ignore[arg-type]


def _metadata_response(fields: Fields) -> Response:
    peers = object_of(fields.get("peers") or {})
    if len(peers) > PEERS_MAX:
        raise MessageRejected(f"more than {PEERS_MAX} peers")
    named = {key: name_of(peers, key) or "" for key in peers}
    return MetadataResponse(
        **_base(fields),  # type: ignore[arg-type]
        peers=named,
        end=_place(fields, "regentEnd"),
        committed_index=optional_number(fields, "regentCommittedIndex"),
    )


def _transfer_request(fields: Fields) -> Request:
    return TransferRequest(
        **_base(fields),  # type: ignore[arg-type]
        transfer_id=name_of(fields, "transferId"),
        transferee_id=name_of(fields, "transfereeId"),
        ledger_index=number(fields, "takeLeadershipLedgerIndex", 0),
    )


_ONE_ENTRY = (PushType.COMPARE, PushType.TRUNCATE)
_LARGE = (MajorityRequest.PUSH, MajorityRequest.APPEND)
_REQUESTS: dict[MajorityRequest, Callable[[Fields], Request]] = {
    MajorityRequest.METADATA: lambda fields: MetadataRequest(**_base(fields)),  # type: ignore[arg-type]
    MajorityRequest.APPEND: lambda fields: AppendRequest(
        **_base(fields),  # type: ignore[arg-type]
        body=bytes_of(fields, "body"),
    ),
    MajorityRequest.GET: lambda fields: GetRequest(
        **_base(fields),  # type: ignore[arg-type]
        begin_index=number(fields, "beginIndex", NONE),
    ),
    MajorityRequest.VOTE: _vote_request,
    MajorityRequest.HEART_BEAT: lambda fields: HeartBeatRequest(**_base(fields)),  # type: ignore[arg-type]
    MajorityRequest.PUSH: _push_request,
    MajorityRequest.LEADERSHIP_TRANSFER: _transfer_request,
}
_RESPONSES: dict[MajorityRequest, Callable[[Fields], Response]] = {
    MajorityRequest.METADATA: _metadata_response,
    MajorityRequest.APPEND: _append_response,
    MajorityRequest.GET: _get_response,
    MajorityRequest.VOTE: _vote_response,
    MajorityRequest.HEART_BEAT: _heartbeat_response,
    MajorityRequest.PUSH: _push_response,
    MajorityRequest.LEADERSHIP_TRANSFER: lambda fields: TransferResponse(**_base(fields)),  # type: ignore[arg-type]
}
_CODES: dict[type[Message], MajorityRequest] = {
    MetadataRequest: MajorityRequest.METADATA,
    AppendRequest: MajorityRequest.APPEND,
    GetRequest: MajorityRequest.GET,
    VoteRequest: MajorityRequest.VOTE,
    HeartBeatRequest: MajorityRequest.HEART_BEAT,
    PushRequest: MajorityRequest.PUSH,
    TransferRequest: MajorityRequest.LEADERSHIP_TRANSFER,
}
