"""Entries of stored or copied tables that are not valid: left out, and told, never a reason not to
start.

Responsible for: a line in the log and a broker event, once for each table and source as long as it
says the same.
Refuses to know: what is valid in which table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

NAMES_TOLD_MAX = 20
NAME_CHARACTERS_MAX = 255


class LeftOutEntries:
    """`say(line)` writes into the log. What is noted before `report_to` is reported then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[str, tuple[str, ...]] = {}  # by table: there are few
        self._waiting: list[dict[str, object]] = []
        self._report: Callable[[str, Mapping[str, object]], None] | None = None

    def note(self, table: str, source: str, names: Sequence[str]) -> None:
        """`table`: its file's name; `source`: "file", or the address of the master it was copied
        from.
        """
        first = tuple(name[:NAME_CHARACTERS_MAX] for name in names[:NAMES_TOLD_MAX])
        if self._told.get(table, ()) == first:
            return
        self._told[table] = first
        if not first:
            return
        self._say(
            f"{table} ({source}): {len(names)} entries are not valid and left out: "
            f"{', '.join(map(repr, first))}"
        )
        fields: dict[str, object] = {
            "table": table,
            "source": source,
            "count": len(names),
            "names": first,
        }
        if self._report is None:
            self._waiting.append(fields)
        else:
            self._report("TableEntriesLeftOut", fields)

    def report_to(self, report: Callable[[str, Mapping[str, object]], None]) -> None:
        self._report = report
        waiting, self._waiting = self._waiting, []
        for fields in waiting:
            report("TableEntriesLeftOut", fields)
