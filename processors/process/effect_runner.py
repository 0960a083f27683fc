"""Performing the effects of a controller core.

Responsible for: one line per kind of effect, in the order given, and bringing what comes of each
back to the core. Refuses to know: why an effect was wanted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import FLAG_RESPONSE, RemotingCommand
from brokers.remoting.connection import Connection
from events.broker_events import BrokerEvent
from events.codec import MalformedRecord
from processors.controller import effects as fx
from processors.controller.core import ControllerCore
from processors.controller.metrics import SUCCESS, TIMEOUT, RequestMeter
from processors.log.controller_log import ControllerLog
from processors.process.outbound import Outbound

_log = logging.getLogger("regent.controller")


def monotonic_ms() -> int:
    """The clock that decides about waiting."""
    return time.monotonic_ns() // 1_000_000


def monotonic_us() -> int:
    """The same clock, for what is measured rather than waited for."""
    return time.monotonic_ns() // 1_000


def wall_ms() -> int:
    """The clock for stamps."""
    return time.time_ns() // 1_000_000


class EffectRunner:
    """Belongs to the loop's thread. After a halt nothing is performed any more."""

    def __init__(
        self,
        core: ControllerCore,
        log: ControllerLog,
        outbound: Outbound,
        connections: Mapping[int, Connection],
        on_halt: Callable[[str], None],
        meter: RequestMeter | None = None,
        report: Callable[[BrokerEvent], None] | None = None,
    ) -> None:
        self._core = core
        self._log = log
        self._outbound = outbound
        self._connections = connections
        self._on_halt = on_halt
        self._meter = meter or RequestMeter()
        self._report = report or (lambda fact: None)
        self._halted = False

    def halt(self, reason: str) -> None:
        """Stop performing, once and for all."""
        if not self._halted:
            self._halted = True
            self._on_halt(reason)

    def perform(self, effects: Iterable[fx.Effect]) -> None:
        for effect in effects:
            if self._halted:
                return
            try:
                self._to_the_outside(effect)
            except MalformedRecord as error:
                self.halt(f"an outcome has no encoding: {error}")

    def _to_the_outside(self, effect: fx.Effect) -> None:
        # Every decision has one of each of these three: going through all patterns costs more than
        # it chooses.
        if isinstance(effect, fx.Reply):
            self._reply(effect)
        elif isinstance(effect, fx.Append):
            self._append(effect)
        elif isinstance(effect, fx.Publish):
            self._log.publish(effect.outcome)
        else:
            self._unusual(effect)

    def _reply(self, reply: fx.Reply) -> None:
        connection = self._connections.get(reply.conn_id)
        self._meter.answered(reply.conn_id, reply.response.opaque, reply.status, monotonic_us())
        if connection is not None:
            _send(connection, reply.response)

    def _append(self, append: fx.Append) -> None:
        began_us, command_id = monotonic_us(), append.command_id
        self._log.append(append.data, lambda offset: self._appended(command_id, offset, began_us))

    def _unusual(self, effect: fx.Unusual) -> None:
        match effect:
            case fx.NotifyRole(address, command):
                self._outbound.notify(address, command)
            case fx.TellPeer(address, command):
                self._outbound.tell_peer(address, command)
            case fx.CloseConnection(conn_id, reason):
                connection = self._connections.get(conn_id)
                if connection is not None:
                    connection.close(reason)
            case fx.Report(fact):
                self._report(fact)
            case fx.Note(level, text):
                _log.log(logging.getLevelName(level.upper()), "%s", text)
            case fx.SetLogLevel(level, logger):
                logging.getLogger(logger).setLevel(level)
            case fx.Halt(reason):
                self.halt(reason)
            case _:
                self._with_an_answer(effect)

    def _with_an_answer(
        self,
        effect: fx.Probe
        | fx.AskBroker
        | fx.ForwardToLeader
        | fx.AskEndOffset
        | fx.AskLastPublished
        | fx.FoldAgain,
    ) -> None:
        core, perform = self._core, self.perform
        match effect:
            case fx.Probe(address):
                self._outbound.probe(
                    address,
                    lambda result: perform(
                        core.on_probe_result(address, result, monotonic_ms(), wall_ms())
                    ),
                )
            case fx.AskBroker(token, address, request, timeout_ms):
                self._outbound.ask_broker(
                    address,
                    request,
                    timeout_ms,
                    lambda answer: perform(core.on_broker_answer(token, answer, monotonic_ms())),
                )
            case fx.ForwardToLeader(token, address, request, timeout_ms):
                self._outbound.forward(
                    address,
                    request,
                    timeout_ms,
                    lambda answer: perform(
                        core.on_reply_from_leader(token, answer, monotonic_ms())
                    ),
                )
            case fx.AskEndOffset(token):
                self._log.ask_end(lambda end: perform(core.on_end_offset(token, end)))
            case fx.AskLastPublished(token):
                self._log.ask_last_published(
                    lambda last: perform(core.on_last_published(token, last, monotonic_ms()))
                )
            case fx.FoldAgain(first, end):
                self._log.fold_again(
                    first,
                    end,
                    lambda outcomes: perform(core.on_folded_again(outcomes, monotonic_ms())),
                )

    def _appended(self, command_id: bytes, offset: int | None, began_us: int) -> None:
        self._meter.metrics.append(
            TIMEOUT if offset is None else SUCCESS, monotonic_us() - began_us
        )
        self.perform(self._core.on_append_result(command_id, offset, monotonic_ms()))


def _send(connection: Connection, response: RemotingCommand) -> None:
    """The asker gets an answer, also when the intended one fits in no frame."""
    try:
        connection.send(response)
    except (ValueError, TypeError) as error:
        _log.error("an answer to %s cannot be sent: %s", connection.peer, error)
        connection.send(
            RemotingCommand(
                ResponseCode.SYSTEM_ERROR,
                response.opaque,
                FLAG_RESPONSE,
                remark=(f"the answer cannot be sent: {error}"),
            )
        )
