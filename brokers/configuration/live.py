"""The configuration of a broker that runs, shown and changed: 25, 26 (PROTOCOL 4.19).

Responsible for: one change at a time, on the disk before it counts and before it is answered, then
in force, then told. Refuses to know: what may be changed (`changes`), what a setting does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from brokers.clock import Clock
from brokers.configuration.names import NAMES
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.role.services import Served, Service
from brokers.service.tables.data_version import DataVersion
from brokers.store.files.errors import LogError
from brokers.store.files.json_files import JsonFile
from events.config_changes import Changed, ChangeRefused, changed, shown
from events.config_kept import Kept, kept_of

Model = TypeVar("Model", bound=BaseModel)

CONFIG_FILE = "brokerConfig.json"

_log = logging.getLogger("regent.broker.config")


def config_file(store_dir: Path) -> JsonFile:
    """Where changes are kept."""
    return JsonFile(store_dir / "config" / CONFIG_FILE)


def with_kept_changes(written: Model, store_dir: Path) -> Model:
    """The configuration that counts when the broker's own file says `written`. A file of changes
    that cannot be read changes nothing, and is named.
    """
    config, gone = _loaded(store_dir).over(NAMES, written)
    if gone:
        _log.warning(
            "changes that were made while the broker ran do not count any more, its own file was "
            "changed since: %s",
            ", ".join(gone),
        )
    return config


def _loaded(store_dir: Path) -> Kept:
    try:
        return config_file(store_dir).decoded(kept_of) or Kept()
    except (LogError, OSError) as error:
        _log.error("%s: the broker's own file counts alone", error)
        return Kept()


class LiveConfig(Service, Generic[Model]):
    """`written`: what the broker's own file says; `facts()`: lines of 26 that are no setting;
    `report`: broker events.
    """

    def __init__(
        self,
        written: Model,
        store_dir: Path,
        clock: Clock,
        facts: Callable[[], Mapping[str, str]],
        report: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._written = written
        self._file = config_file(store_dir)
        self._kept = _loaded(store_dir)
        self.running = self.wanted = self._kept.over(NAMES, written)[0]
        self._clock = clock
        self._facts = facts
        self._report = report
        self._one_at_a_time = asyncio.Lock()
        self._in_force: list[tuple[frozenset[str], Callable[[Model], None]]] = []

    def when_changed(self, fields: Iterable[str], act: Callable[[Model], None]) -> None:
        """`act` puts a change of one of these settings into force."""
        self._in_force.append((frozenset(fields), act))

    def serves(self) -> dict[int, Served]:
        """Every replica has its own configuration."""
        return {
            RequestCode.UPDATE_BROKER_CONFIG: Served(self._change),
            RequestCode.GET_BROKER_CONFIG: Served(self._show),
        }

    def _show(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """26."""
        lines = sorted(NAMES.lines(self.wanted, self._facts()).items())
        body = "\n".join(f"{key}={_one_line(value)}" for key, value in lines)
        version = DataVersion(0, self._kept.changed_ms, self._kept.counter).to_wire()
        ext = {"version": fastjson.dumps(version).decode()}
        return request.reply(ext=ext, body=f"{body}\n".encode())

    async def _change(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """25."""
        async with self._one_at_a_time:
            try:
                made = changed(NAMES, self.wanted, self.running, request.body)
                if made.fields:
                    await self._take(made, str(connection.peer))
            except ChangeRefused as refusal:
                forbidden, code = refusal.forbidden, ResponseCode.NO_PERMISSION
                return request.reply(
                    code if forbidden else ResponseCode.SYSTEM_ERROR, remark=str(refusal)
                )
            except (LogError, OSError) as error:
                return request.reply(
                    ResponseCode.SYSTEM_ERROR,
                    remark=f"nothing is changed, it cannot be written down: {error}",
                )
        return request.reply(remark=made.remark)

    async def _take(self, made: Changed[Model], peer: str) -> None:
        kept = self._kept.with_changes(self._written, made.wanted, self._clock.wall_ms())
        await asyncio.to_thread(self._file.save, kept.document())
        before, self._kept, self.wanted = self.wanted, kept, made.wanted
        self.running = made.running
        lines = [
            f"{name}: {shown(getattr(before, name))} -> {shown(getattr(self.wanted, name))}"
            for name in made.fields
        ]
        _log.warning("settings changed by %s: %s", peer, "; ".join(lines))
        for fields, act in self._in_force:
            if not fields.isdisjoint(made.fields):
                act(self.running)
        told = {
            "changes": lines,
            "at_next_start": list(made.at_next_start),
            "source": peer,
            "counter": kept.counter,
        }
        self._report("BrokerConfigChanged", told)


def _one_line(value: str) -> str:
    return value.replace("\n", " ").replace("\r", " ")
