"""One member as a process, from its configuration to its exit code.

Responsible for: signals, what a person reads in its log, how it ends. Refuses to know: the parts of
a member.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from brokers.clock import Clock
from brokers.majority.quorum.standing import Standing
from brokers.process.majority.config import MemberConfig
from brokers.process.majority.listener import MemberListener
from brokers.process.majority.member import MemberProcess, OpenedFolder
from brokers.process.majority.telling import GroupEvents
from brokers.store.files.errors import LogError
from events.last_resort import LastResort, on_stop_signals

EXIT_OK, EXIT_LEFT, EXIT_REFUSED = 0, 1, 2

_log = logging.getLogger("regent.majority")


class _Told(MemberListener):
    """A line for each; `stopping` is set when the member has left its group. `events`: who tells
    history.
    """

    def __init__(self, self_id: str, stopping: asyncio.Event) -> None:
        self._self_id, self._stopping = self_id, stopping
        self.reason: str | None = None
        self.events: GroupEvents | None = None

    def happened(self, kind: str, fields: Mapping[str, object]) -> None:
        if self.events is not None:
            self.events.happened(kind, fields)

    def role_changed(self, standing: Standing) -> None:
        _log.info(
            "%s is %s of term %d, its leader is %s",
            self._self_id,
            standing.role.value,
            standing.term,
            standing.leader_id or "not known",
        )

    def leader_ready(self, term: int) -> None:
        _log.info("%s takes appends in term %d", self._self_id, term)

    def reported(self, kind: str, fields: Mapping[str, object]) -> None:
        _log.info("%s: %s %s", self._self_id, kind, dict(fields))

    def left(self, reason: str) -> None:
        _log.error("%s has left its group: %s", self._self_id, reason)
        self.reason = reason
        self._stopping.set()


async def run(config: MemberConfig) -> int:
    """Run until SIGTERM or SIGINT, or until the member has left its group. The exit code: 0 as
    asked; 1 it has left, 2 a start that cannot be, each with one line that says why; 71 when the
    stop hangs.
    """
    stopping = asyncio.Event()
    at_the_latest = LastResort(config.self_id)
    on_stop_signals(stopping.set, at_the_latest)
    told = _Told(config.self_id, stopping)
    clock = Clock()
    try:
        opened = await asyncio.to_thread(OpenedFolder, config)
        member = MemberProcess(config, opened, told, clock)
    except (LogError, OSError) as error:
        _log.error("%s", error)
        return EXIT_REFUSED
    told.events = GroupEvents(config, opened.boot.incarnation, clock)
    told.events.started(opened)
    try:
        await member.start()
        _log.info("%s of group %s listens on %s", config.self_id, config.group, config.bound)
        await stopping.wait()
    except OSError as error:
        _log.error("cannot listen on %s: %s", config.bound, error.strerror or error)
        return EXIT_REFUSED
    finally:
        at_the_latest.arm()
        await _stopped(member)
        await told.events.stopped(told.reason or "asked to")
    return EXIT_OK if told.reason is None else EXIT_LEFT


async def _stopped(member: MemberProcess) -> None:
    try:
        await member.stop()
    except (LogError, OSError) as error:
        _log.error("the last flush: %s", error)
