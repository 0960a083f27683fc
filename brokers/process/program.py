"""`regent broker`: one process, from its configuration to its exit code.

A broker whose set changes over begins another life in the same process (PROTOCOL 7.8): its address
and its connections stay, and what waits goes to the next life.

Responsible for: signals, which configuration counts, the lives one after the other, what a stop
waits for. Refuses to know: the parts of a broker.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from brokers.changeover.order import Order
from brokers.changeover.placed import PlaceContradicts
from brokers.configuration.live import with_kept_changes
from brokers.ha.epoch_file import EpochFileError
from brokers.membership.identity_file import IdentityFileError
from brokers.membership.membership import RegistrationRefused
from brokers.process.broker import BrokerProcess
from brokers.process.changeover.change_over import PlaceChanged
from brokers.process.changeover.folder import placed, unsettled
from brokers.process.config import BrokerConfig
from brokers.process.hand_over import longest_stop_ms
from brokers.process.held_position import forget_epoch
from brokers.process.memberships import open_replica
from brokers.process.opening import Opening, StartRefused
from brokers.process.predecessor import forget_leaving, leaves_in_ms, note_leaving, once_free
from brokers.replica.replica_port import Replica
from brokers.service.tables.kept_for_java import forget_timer_epoch
from brokers.store.files.errors import LogError
from brokers.store.log.delay_levels import delay_levels, use_delay_levels
from events.last_resort import LastResort, on_stop_signals

EXIT_OK, EXIT_REFUSED = 0, 2

_log = logging.getLogger("regent.broker")


async def run(config: BrokerConfig) -> int:
    """Run until SIGTERM or SIGINT; a second one ends the wait for clients to go. The exit code: 71
    when the stop hangs. A start that cannot be is logged in one line, code 2.
    """
    stopping, hurry = asyncio.Event(), asyncio.Event()
    at_the_latest = LastResort(config.broker_name)
    on_stop_signals(lambda: (hurry if stopping.is_set() else stopping).set(), at_the_latest)
    return await lives(config, stopping, hurry, at_the_latest)


async def lives(
    config: BrokerConfig, stopping: asyncio.Event, hurry: asyncio.Event, at_the_latest: LastResort
) -> int:
    """One after the other, as the broker changes over, until it is asked to stop."""
    opening = Opening(config)
    while True:
        try:
            return await _live(config, opening, stopping, hurry, at_the_latest)
        except PlaceChanged:
            continue


async def _live(
    file: BrokerConfig,
    opening: Opening,
    stopping: asyncio.Event,
    hurry: asyncio.Event,
    at_the_latest: LastResort,
) -> int:
    """With one place in its set. PlaceChanged: it has another one now, and connections stay."""
    broker, moves = None, False
    try:
        begins, written = _placed(file)
        config = with_kept_changes(written, file.store_dir)
        use_delay_levels(delay_levels(config.message_delay_level))
        opening.begin(config)
        replica = await once_free(
            partial(_opened, config), stays_ms=partial(leaves_in_ms, config.store_dir)
        )
        forget_leaving(config.store_dir)
        broker = BrokerProcess(config, replica, opening, written=written, file=file, begins=begins)
        await broker.start()
        await broker.run_until(stopping)
    except PlaceChanged:
        moves = not stopping.is_set()
        if moves:
            raise
    except (
        StartRefused,
        PlaceContradicts,
        RegistrationRefused,
        IdentityFileError,
        EpochFileError,
        LogError,
    ) as error:
        _log.error("%s", error)
        return EXIT_REFUSED
    finally:
        # A flush that waits for a disk, and the store's last one, hold up the loop: for ever when
        # the disk hangs.
        at_the_latest.arm()
        if broker is None:
            await opening.close()
        elif moves:
            await broker.move_on()
        else:
            await _end(broker, stopping, hurry, at_the_latest)
        if not stopping.is_set():
            at_the_latest.disarm()
    return EXIT_OK


async def _end(
    broker: BrokerProcess, stopping: asyncio.Event, hurry: asyncio.Event, at_the_latest: LastResort
) -> None:
    """A master that is asked to stop hands over first."""
    folder, drain_ms = broker.config.store_dir, broker.config.drain_ms
    try:
        if stopping.is_set():
            note_leaving(folder, longest_stop_ms(drain_ms))
            await broker.hand_over.before_stop(at_the_latest.put_off, hurry.is_set)
    finally:
        await broker.stop("asked to" if stopping.is_set() else "failed")
        forget_leaving(folder)


def _placed(file: BrokerConfig) -> tuple[Order | None, BrokerConfig]:
    """The order whose first life this is, and the configuration that counts."""
    try:
        begins = unsettled(file.store_dir)
        return begins, placed(file, file.store_dir, _forget_epochs)
    except OSError as error:
        raise _unusable(file, error) from error


def _forget_epochs(store_dir: Path) -> None:
    forget_epoch(store_dir)
    forget_timer_epoch(store_dir)


def _unusable(config: BrokerConfig, error: OSError) -> StartRefused:
    return StartRefused(
        f"the store folder {config.store_dir} cannot be used: {error.strerror or error}"
    )


async def _opened(config: BrokerConfig) -> Replica:
    """In a thread: a disk that does not answer must not hold up the loop, which has clients."""
    try:
        return await asyncio.to_thread(open_replica, config)
    except OSError as error:
        raise _unusable(config, error) from error
