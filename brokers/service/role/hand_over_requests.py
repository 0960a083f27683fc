"""The internal request 19012: the wish that a master hands over, and a master's word to the member
that takes over.

Responsible for: telling one from the other, and the answers. Refuses to know: how a hand-over goes.

The wish may name `targetBrokerId`; success is answered when the target leads, with its id, address
and epoch. A master's word carries `regentMasterEpoch`, its own; success means that this slave has
copied the master's tables since, and, where `regentToLead` is in it, that it may take over: one
that is asked to stop itself does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField, number
from brokers.service.role.hand_over import Refused
from brokers.service.role.role_view import RoleView

EPOCH, TARGET, TO_LEAD = "regentMasterEpoch", "targetBrokerId", "regentToLead"


class Outcome(Protocol):
    """Who leads after a hand-over."""

    @property
    def master_id(self) -> int: ...
    @property
    def master_address(self) -> str: ...
    @property
    def master_epoch(self) -> int: ...


def take_tables(master_epoch: int, *, to_lead: bool = False) -> RemotingCommand:
    """The word of the master of that epoch to a member, `to_lead` to the one that shall take
    over.
    """
    ext = {EPOCH: str(master_epoch)} | ({TO_LEAD: "true"} if to_lead else {})
    return RemotingCommand.request(RequestCode.REGENT_HAND_OVER, ext)


class HandOverRequests:
    """`hand_over(target)` raises Refused; `copy_tables(master address, epoch)` is the slave's
    copying of all tables, None when it has them, else why not. `unfit()`: why this replica must not
    lead, None when it may.
    """

    def __init__(
        self,
        roles: RoleView,
        is_ours: Callable[[str], bool],
        hand_over: Callable[[int | None], Awaitable[Outcome]],
        copy_tables: Callable[[str, int], Awaitable[str | None]],
        unfit: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._roles = roles
        self._is_ours = is_ours
        self._hand_over = hand_over
        self._copy_tables = copy_tables
        self._unfit = unfit

    def serve(self, connection: Connection, request: RemotingCommand) -> Answer:
        """Handler of 19012."""
        if not self._is_ours(connection.peer):
            remark = (
                "a hand-over is asked for from a host of this set or of its controllers, not from "
                f"{connection.peer}; run it there"
            )
            return request.reply(ResponseCode.NO_PERMISSION, remark=remark)
        try:
            if EPOCH in request.ext:
                return self._take_tables(request, number(request.ext, EPOCH))
            return self._wish(
                request, number(request.ext, TARGET) if TARGET in request.ext else None
            )
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))

    async def _wish(self, request: RemotingCommand, target: int | None) -> RemotingCommand:
        try:
            done = await self._hand_over(target)
        except Refused as refused:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(refused))
        ext = {
            "masterBrokerId": str(done.master_id),
            "masterAddress": done.master_address,
            "masterEpoch": str(done.master_epoch),
        }
        return request.reply(ext=ext)

    async def _take_tables(self, request: RemotingCommand, epoch: int) -> RemotingCommand:
        master = self._roles.master_address
        if master is None or self._roles.current.master_epoch != epoch:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=(f"it follows nobody in epoch {epoch}")
            )
        if self._roles.leaving and TO_LEAD in request.ext:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark="it is asked to stop itself")
        if (unfit := self._unfit()) is not None:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=unfit)
        try:
            refusal = await self._copy_tables(master, epoch)
        except OSError as error:
            refusal = str(error)
        return (
            request.reply()
            if refusal is None
            else request.reply(ResponseCode.SYSTEM_ERROR, remark=refusal)
        )
