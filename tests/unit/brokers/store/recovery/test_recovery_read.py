"""A start that looks at many messages at once finds what one does that looks at each, whatever has
become of the files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokers.store.log.records import MessageFields
from brokers.store.recovery import recovery_read
from brokers.store.recovery.checkpoint import Checkpoint, write_checkpoint
from brokers.store.store import MessageStore, StoreConfig
from tests.unit.brokers.store.log_samples import NOW_MS, message
from tests.unit.brokers.store.queues.test_entry_runs import messages

CONFIG = StoreConfig(log_file_bytes=4096, queue_file_bytes=400, message_index=False)
NEVER = 1 << 60


def found(root: Path, *, same_boot: bool) -> dict[str, object]:
    """Everything that opening gives, or leaves in the files."""
    store = MessageStore(root, CONFIG, same_boot=same_boot)
    told = {
        "report": store.recovery,
        "readable": store.dispatched_offset,
        "stored_ms": store.dispatcher.last_store_ms,
    }
    store.close(clean=False)
    return (
        told
        | {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*/*/*"))
            if path.is_file()
        }
        | {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}
    )


def filled(root: Path, sent: list[MessageFields], confirmed: float) -> int:
    """A store that was killed; how long its log is. `confirmed`: that part of it has queue
    entries.
    """
    store = MessageStore(root, CONFIG)
    for number, one in enumerate(sent):
        store.put(one, NOW_MS + number)
    end = store.log_end
    store.dispatch_to(int(end * confirmed))
    store.close(clean=False)
    return end


shares = st.floats(0, 1)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_read, "WINDOW_BYTES", 1500)
    monkeypatch.setattr(recovery_read, "WINDOW_BYTES_MIN", 200)
    monkeypatch.setattr(recovery_read, "SINGLY", 2)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sent=st.lists(messages, min_size=20, max_size=60),
    confirmed=shares,
    known=st.none() | st.tuples(shares, shares),
    same_boot=st.booleans(),
    damage=st.lists(
        st.tuples(shares, st.sampled_from([1, 8, 300]), st.sampled_from([0, 1, 0x80, 0xFF])),
        max_size=3,
    ),
    queue_damage=st.lists(st.tuples(shares, shares), max_size=2),
)
def test_whatever_the_files_hold(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    small_windows: None,
    sent: list[MessageFields],
    confirmed: float,
    known: tuple[float, float] | None,
    same_boot: bool,
    damage: list[tuple[float, int, int]],
    queue_damage: list[tuple[float, float]],
) -> None:
    root = tmp_path_factory.mktemp("killed")
    end = filled(root, sent, confirmed)
    if known is not None:
        write_checkpoint(
            root / "checkpoint",
            Checkpoint(NOW_MS, NOW_MS, 0, int(end * known[0]), int(end * known[1])),
        )
    for share, count, value in damage:
        _overwrite(root / "commitlog", int(end * share), bytes([value]) * count)
    queues = sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())
    for which, where in queue_damage if queues else ():
        path = queues[int(which * (len(queues) - 1))]
        with path.open("r+b") as file:
            file.seek(int(where * 380))
            file.write(bytes(20))
    other = shutil.copytree(root, root.with_name(root.name + "-other"))
    results = []
    for folder, worth_bytes in ((root, 0), (other, NEVER)):
        monkeypatch.setattr(recovery_read, "WORTH_BYTES", worth_bytes)
        results.append(found(folder, same_boot=same_boot))
        shutil.rmtree(folder)
    assert results[0] == results[1]


def _overwrite(folder: Path, offset: int, data: bytes) -> None:
    path = folder / f"{offset // 4096 * 4096:020d}"
    if path.exists():
        with path.open("r+b") as file:
            file.seek(offset % 4096)
            file.write(data[: 4096 - offset % 4096])


def test_a_long_log_is_read_with_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a short one is not: they take a tenth of a second to load."""
    looked: list[int] = []
    real = recovery_read._many
    monkeypatch.setattr(
        recovery_read,
        "_many",
        lambda log, read, *others: looked.append(read.walk.end) or real(log, read, *others),
    )
    monkeypatch.setattr(recovery_read, "WORTH_BYTES", 3000)
    monkeypatch.setattr(recovery_read, "WINDOW_BYTES_MIN", 200)
    filled(tmp_path / "long", [message()] * 40, 1.0)
    filled(tmp_path / "short", [message()] * 20, 1.0)
    assert found(tmp_path / "short", same_boot=True)["readable"] and not looked
    assert found(tmp_path / "long", same_boot=True)["report"].messages == 40 and len(looked) < 40  # type: ignore[attr-defined]
    assert looked
