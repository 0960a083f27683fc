"""What comes to a member's port: frames of other members and of clients.

Responsible for: frames to messages and back (PROTOCOL 10.2), what clients ask besides appending,
that each request is answered in the form of its kind, also where it is none. Refuses to know: what
a member answers to another one, sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import structs

from brokers.majority.entry import HEAD_BYTES, NONE
from brokers.majority.quorum.effects import AppendDone
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import FRAME_ANSWERED, Code, MajorityRequest
from brokers.majority.wire.json_fields import MessageRejected
from brokers.majority.wire.messages import (
    AppendRequest,
    AppendResponse,
    GetRequest,
    GetResponse,
    HeartBeatResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
    PushResponse,
    Response,
    TransferResponse,
    VoteResponse,
)
from brokers.process.majority.driver import MemberDriver, Offered
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.store.files.errors import LogError
from brokers.store.log.records import BLANK_BYTES_MIN

BROKER_ADDRESS = "regentBrokerAddress"
"""Beside the answer to a question for metadata: where this member's broker serves clients."""
_REJECTED: dict[MajorityRequest, type[Response]] = {
    MajorityRequest.METADATA: MetadataResponse,
    MajorityRequest.APPEND: AppendResponse,
    MajorityRequest.GET: GetResponse,
    MajorityRequest.VOTE: VoteResponse,
    MajorityRequest.HEART_BEAT: HeartBeatResponse,
    MajorityRequest.PUSH: PushResponse,
    MajorityRequest.LEADERSHIP_TRANSFER: TransferResponse,
}


class MemberRequests:
    """Handler of all codes of a group. `addresses`: by member id, what clients are told.
    `broker_address`: where the broker with this log serves, None without one.
    """

    def __init__(
        self,
        driver: MemberDriver,
        log: EntryLog,
        addresses: Mapping[str, str],
        broker_address: str | None = None,
    ) -> None:
        self._driver, self._log = driver, log
        self._addresses = dict(addresses)
        self._ext = {} if broker_address is None else {BROKER_ADDRESS: broker_address}

    def __call__(self, connection: Connection, request: RemotingCommand) -> Answer:
        """None: the answer comes later."""
        try:
            message = json_bodies.decode_request(request.code, request.body)
        except MessageRejected:
            kind = _REJECTED[MajorityRequest(request.code)]
            return _frame(request, self._by_this(kind(code=Code.UNEXPECTED_ARGUMENT)))
        match message:
            case MetadataRequest():
                return _frame(request, self._by_this(self._metadata(message)), self._ext)
            case GetRequest():
                return _frame(request, self._by_this(self._get(message)))
            case AppendRequest():
                self._append(connection, request, message)
            case _:
                self._driver.request(_later(connection, request), message)
        return None

    def _by_this(self, response: Response) -> Response:
        """As this member says it now."""
        config, standing = self._driver.core.config, self._driver.core.standing
        return structs.replace(
            response, group=config.group, local_id=config.self_id, leader_id=standing.leader_id,
            term=standing.term,
        )  # fmt: skip

    def _misdirected(self, message: Message) -> Code | None:
        config = self._driver.core.config
        if message.remote_id != config.self_id:
            return Code.UNKNOWN_MEMBER
        return None if message.group == config.group else Code.UNKNOWN_GROUP

    def _metadata(self, message: MetadataRequest) -> MetadataResponse:
        wrong = self._misdirected(message)
        if wrong is not None:
            return MetadataResponse(code=wrong)
        return MetadataResponse(
            peers=self._addresses, end=self._log.last, committed_index=self._driver.core.committed
        )

    def _get(self, message: GetRequest) -> GetResponse:
        """A committed entry. Java gives any that the leader has."""
        wrong = self._misdirected(message) or self._get_refusal(message.begin_index)
        if wrong is not None:
            return GetResponse(code=wrong)
        try:
            entry = self._log.get(message.begin_index)
        except LogError:
            return GetResponse(code=Code.DISK_ERROR)
        return GetResponse(entries=() if entry is None else (entry,))

    def _get_refusal(self, index: int) -> Code | None:
        core = self._driver.core
        if not core.ready:
            return (
                Code.NOT_LEADER
                if core.standing.leader_id != core.config.self_id
                else (Code.LEADER_NOT_READY)
            )
        if not 0 <= index <= core.committed:
            return Code.INDEX_OUT_OF_RANGE
        return Code.INDEX_LESS_THAN_LOCAL_BEGIN if index < self._log.first_index else None

    def _unfit(self, message: AppendRequest) -> Code | None:
        """No file holds it: refused before others are written with it."""
        room = self._log.data.file_bytes - HEAD_BYTES - BLANK_BYTES_MIN
        return Code.UNEXPECTED_ARGUMENT if len(message.body) > room else None

    def _append(
        self, connection: Connection, request: RemotingCommand, message: AppendRequest
    ) -> None:
        send = _later(connection, request)
        wrong = self._misdirected(message) or self._unfit(message)
        if wrong is not None:
            send(self._by_this(AppendResponse(code=wrong)))
            return
        body = message.body

        config = self._driver.core.config

        def done(outcome: AppendDone, position: int) -> None:
            taken = outcome.code is Code.SUCCESS
            send(
                AppendResponse(
                    group=config.group, local_id=config.self_id, leader_id=outcome.leader_id,
                    term=outcome.term, code=outcome.code,
                    index=outcome.index if taken else NONE, pos=position if taken else NONE,
                )
            )  # fmt: skip

        self._driver.append(Offered(len(body), lambda position: body, done))


def _frame(
    request: RemotingCommand, response: Response, ext: Mapping[str, str] = MappingProxyType({})
) -> RemotingCommand:
    return request.reply(FRAME_ANSWERED, dict(ext), json_bodies.encode(response))


def _later(connection: Connection, request: RemotingCommand) -> Callable[[Response], None]:
    def send(response: Response) -> None:
        if not request.is_oneway:
            connection.send(_frame(request, response))

    return send
