"""The Faust worker of one controller, inside the controller's own loop (design D4).

Responsible for: an app of its own id that reads `regent.commands` in order and hands each record
on; what must be true of the stream (dense offsets, no repeats behind the fold) is checked here.
In a rebalance Faust may lose records that it had fetched. That is no hole in the log: what comes
behind them is kept, and the watch reads the missing ones directly (`log.watch`), where a hole of
the log itself shows.
Refuses to know: what a record means. The agent holds no business rule.

The topic is declared with `acks=False`: nothing is ever committed by Faust, so a start reads from
the offset that was committed for the group beforehand (`log.reader.commit_start`). An exception in
an agent would make Faust skip the event; therefore any doubt stops the process instead.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from pathlib import Path
from typing import Any

import faust
from faust.types import Message
from faust.types.auth import AuthProtocol

from events.topics import COMMANDS_TOPIC
from processors.log.reader import LogBroken

_log = logging.getLogger("regent.controller.log")

BROKER_REQUEST_TIMEOUT_S = 4.0
"""A paused Kafka node must not stall the worker for the default 90 s."""
BROKER_SESSION_TIMEOUT_S = 3.0
BROKER_HEARTBEAT_S = 1.0
STOP_WAIT_S = 5.0
COMPANY_MAX = 32
"""How many records are taken along with one: the loop has others to serve."""

AHEAD_MAX = 10_000
"""Records kept behind missing ones; those beyond are left to be read directly, too."""

OnRecord = Callable[[int, bytes], None]
OnFailure = Callable[[str], None]


class FaustWorker:
    """Drives `on_record(offset, data)` for every record from `next_offset()` on, one at a time, in
    order.

    `on_failure(reason)` is called at most once, for anything after which the fold can no longer
    follow.
    """

    def __init__(
        self,
        app_id: str,
        kafka: Mapping[str, str],
        data_dir: Path,
        *,
        next_offset: Callable[[], int],
        on_record: OnRecord,
        on_failure: OnFailure,
    ) -> None:
        self._next_offset = next_offset
        self._on_record = on_record
        self._on_failure = on_failure
        self._failed = False
        self._ahead: deque[tuple[int, bytes | None]] = deque()
        self.position = next_offset()
        """Offset behind the record that Faust handed over last."""
        self.delivered = 0
        """How many records Faust handed over, repeats included: a worker that lives but is stuck
        delivers none.
        """
        data_dir.mkdir(parents=True, exist_ok=True)
        self.app = faust.App(
            app_id,
            broker=broker_urls(kafka),
            broker_credentials=credentials(kafka),
            store="memory://",
            datadir=str(data_dir),
            autodiscover=False,
            web_enabled=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
            stream_wait_empty=False,
            broker_request_timeout=BROKER_REQUEST_TIMEOUT_S,
            broker_session_timeout=BROKER_SESSION_TIMEOUT_S,
            broker_heartbeat_interval=BROKER_HEARTBEAT_S,
            consumer_auto_offset_reset="earliest",
        )
        topic = self.app.topic(
            COMMANDS_TOPIC, key_serializer="raw", value_serializer="raw", partitions=1, acks=False
        )
        self.app.agent(topic, name=f"{app_id}-fold")(self._drive)

    async def start(self) -> None:
        """Start in the running loop; returns when the app's services run. Raises what Kafka
        raises.
        """
        self.app.loop = asyncio.get_running_loop()
        self.app.finalize()
        await self.app.start()
        consumer: Any = self.app.consumer
        consumer.wait_first = at_once(consumer.wait_first)
        # Its figures are shown nowhere (ours are in `metrics`), and it takes its part of every
        # record.
        self.app.sensors.remove(self.app.monitor)

    @property
    def crash(self) -> str | None:
        """Why the app has crashed; None while it lives."""
        return repr(self.app.crash_reason) if self.app.crashed else None

    async def stop(self) -> None:
        """Leave the group and stop, within a bounded time."""
        self._failed = True
        try:
            await asyncio.wait_for(self.app.stop(), STOP_WAIT_S)
        except (TimeoutError, asyncio.CancelledError):
            _log.warning("the Faust app did not stop within %s s", STOP_WAIT_S)

    async def _drive(self, stream):  # type: ignore[no-untyped-def]
        waiting, may_flow = stream.channel.queue, self.app.flow_control.is_active
        async for event in stream.events():
            self._deliver(event.message)
            # Faust goes round the loop for each record: those that are here already are taken
            # along.
            for _ in range(min(waiting.qsize(), COMPANY_MAX)):
                if not may_flow():
                    break
                self._deliver(waiting.get_nowait().message)

    def _deliver(self, message: Message) -> None:
        self.position, self.delivered = message.offset + 1, self.delivered + 1
        self.take(message.offset, message.value)

    def take(self, offset: int, data: bytes | None) -> None:
        """One record: a repeat is dropped, one behind missing ones is kept until they came. What
        cannot be applied ends it all. Never raises.
        """
        expected = self._next_offset()
        if offset > expected:
            self._keep_ahead(expected, offset, data)
            return
        if offset == expected:
            self._apply(offset, data)
        while self._ahead and self._ahead[0][0] <= self._next_offset() and not self._failed:
            kept, its_data = self._ahead.popleft()
            if kept == self._next_offset():
                self._apply(kept, its_data)

    def _keep_ahead(self, expected: int, offset: int, data: bytes | None) -> None:
        if not self._ahead:
            _log.info(
                "Faust handed over offset %d after %d: those between are read directly",
                offset,
                expected - 1,
            )
        elif offset <= self._ahead[-1][0] or len(self._ahead) >= AHEAD_MAX:
            return
        self._ahead.append((offset, data))

    def _apply(self, offset: int, data: bytes | None) -> None:
        if self._failed:
            return
        try:
            self._on_record(offset, data if data is not None else b"")
        except LogBroken as error:
            self._fail(str(error))
        except Exception as error:
            _log.exception("record at offset %d", offset)
            self._fail(f"the record at offset {offset} could not be applied: {error!r}")

    def _fail(self, reason: str) -> None:
        if not self._failed:
            self._failed = True
            self._on_failure(reason)


WaitFirst = Callable[..., Awaitable[object]]


def at_once(wait_first: WaitFirst) -> WaitFirst:
    """Faust's way to hand a record to its stream, or to give up when the flow is suspended,
    without four tasks for each.

    A hand-over that need not wait is done when its first step is; only one that must wait goes the
    way of `wait_first`.
    """

    async def hand_over(*waited_for: Any, **limits: Any) -> object:
        if limits or len(waited_for) != 2 or not all(map(asyncio.iscoroutine, waited_for)):
            return await wait_first(*waited_for, **limits)
        delivery, suspended = waited_for
        try:
            awaited = delivery.send(None)
        except StopIteration:
            suspended.close()
            return None
        except BaseException:
            suspended.close()
            raise
        return await wait_first(_the_rest(delivery, awaited), suspended)

    return hand_over


@types.coroutine
def _the_rest(begun: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """What is left of a coroutine that stopped at `awaited`."""
    try:
        while True:
            try:
                came = yield awaited
            except GeneratorExit:
                begun.close()
                raise
            except BaseException as error:
                awaited = begun.throw(error)
            else:
                awaited = begun.send(came)
    except StopIteration:
        return


def broker_urls(kafka: Mapping[str, str]) -> list[str]:
    """Faust's form of `bootstrap.servers`."""
    return [
        f"kafka://{one.strip()}" for one in kafka["bootstrap.servers"].split(",") if one.strip()
    ]


def credentials(kafka: Mapping[str, str]) -> faust.types.auth.CredentialsT | None:
    """Faust's form of `security.protocol` with `sasl.*` and `ssl.*`. Raises ValueError on
    others.
    """
    protocol = kafka.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return None
    context = _ssl_context(kafka) if "SSL" in protocol else None
    if protocol == "SSL":
        return faust.SSLCredentials(context)
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
        raise ValueError(f"security.protocol {protocol} is not known")
    made = faust.SASLCredentials(
        mechanism=kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "PLAIN")),
        username=kafka.get("sasl.username"),
        password=kafka.get("sasl.password"),
        ssl_context=context,
    )
    made.protocol = AuthProtocol(protocol)
    return made


def _ssl_context(kafka: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=kafka.get("ssl.ca.location"))
    if "ssl.certificate.location" in kafka:
        context.load_cert_chain(
            kafka["ssl.certificate.location"],
            kafka.get("ssl.key.location"),
            kafka.get("ssl.key.password"),
        )
    if kafka.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    return context
