"""
Folding many records of the log together, as a start does (design D4).

Responsible for which are folded in bulk, and which one by one since their outcomes are still to be
published.
Refuses to know where records come from, and what a digest means that the issuer had otherwise.
"""

from collections.abc import Callable

from events.outcomes import Outcome
from processors.fold.folder import Folder
from processors.fold.state_digest import has_state_digest

RECORDS_TOGETHER = 512


class BulkFold:
    """Takes records in order, up to `end` (excluded); of those beyond `published` it keeps the
    first outcomes.

    `on_difference` gets each offset whose issuer had named another digest. Raises as `Folder.apply`
    does.
    """

    def __init__(
        self,
        folder: Folder,
        end: int,
        published: int,
        outcomes_max: int,
        on_difference: Callable[[int], None],
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._folder = folder
        self._end = end
        self._published = published
        self._outcomes_max = outcomes_max
        self._on_difference = on_difference
        self._waiting: list[bytes] = []

    def take(self, offset: int, data: bytes) -> bool:
        """Take the next record; True when it, and all before it, have been applied."""
        if offset > self._published and len(self.outcomes) < self._outcomes_max:
            self.flush()
            applied = self._folder.apply(offset, data)
            self.outcomes.append(applied.outcome)
            if applied.digest_agrees is False:
                self._on_difference(offset)
            return True
        self._waiting.append(data)
        # What comes next may want a snapshot of this very state, which can be proven here.
        is_full = len(self._waiting) >= RECORDS_TOGETHER or has_state_digest(offset)
        if not is_full and offset + 1 < self._end:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Apply what was taken and waits."""
        waiting, self._waiting = self._waiting, []
        for offset in self._folder.apply_many(self._folder.next_offset, waiting):
            self._on_difference(offset)
