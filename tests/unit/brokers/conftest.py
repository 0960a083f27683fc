"""What a test leaves open is closed after it: a test that kills a store by leaving it must not
leave descriptors, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brokers.store.log.commit_log import CommitLog
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.store import MessageStore

MADE: list[Any] = []


def _noting(made: type[Any]) -> Callable[..., None]:
    begin = made.__init__

    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        MADE.append(self)

    return noted


@pytest.fixture(autouse=True, scope="session")
def _all_that_holds_files_is_known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for made in (MessageStore, CommitLog, ConsumeQueues):
            patch.setattr(made, "__init__", _noting(made))
        yield


@pytest.fixture(autouse=True)
def _what_was_left_open_is_closed() -> Iterator[None]:
    MADE.clear()
    yield
    for one in MADE:
        one.close(clean=False) if isinstance(one, MessageStore) else one.close()
    MADE.clear()
