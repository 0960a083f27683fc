"""What a majority log's small files say: checkpoint, term and vote, what a member owes.

Responsible for: PROTOCOL 9.4, text by text: Java's properties, and what ours add. Refuses to know:
files, what follows from a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from msgspec import Struct

from brokers.majority.entry import EMPTY, NONE, Place
from brokers.majority.log_port import TermAndVote

CHECKPOINT_NAME = "checkpoint"
TERM_NAME = "currterm"
OWED_NAME = "owed"
FILE_BYTES_MAX = 65_536
MEMBER_ID_CHARS_MAX = 255
_NUMBER_MAX = (1 << 63) - 1


class Unreadable(ValueError):
    """The text is not what such a file holds. One line, why."""


class Marks(Struct, frozen=True, gc=False):
    """A checkpoint. `durable`: entries and their index records were on the disk up to here when it
    was written; None when Java wrote it, which does not say.
    """

    end_index: int = NONE
    committed_index: int = NONE
    durable: Place | None = EMPTY


def properties(text: str) -> dict[str, str]:
    """Names and values of Java's properties, without its escapes: nobody writes any here."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
    return found


def format_checkpoint(marks: Marks) -> str:
    """As Java reads it. What only ours know is behind a sum, which Java's writing drops."""
    text = f"endIndex={marks.end_index}\ncommittedIndex={marks.committed_index}\n"
    if marks.durable is None:
        return text
    text += f"durableTerm={marks.durable.term}\ndurableIndex={marks.durable.index}\n"
    return _summed(text)


def parse_checkpoint(text: str) -> Marks:
    """Never refuses: what does not read as a number is not known, and a start reads more then."""
    found = properties(text)
    end, committed = _number(found, "endIndex"), _number(found, "committedIndex")
    term, index = _number(found, "durableTerm"), _number(found, "durableIndex")
    durable = None
    if term is not None and index is not None and _sum_fits(text):
        durable = Place(term, index)
    return Marks(NONE if end is None else end, NONE if committed is None else committed, durable)


def format_term(state: TermAndVote) -> str:
    """As Java reads it."""
    return f"currTerm={state.term}\nvoteLeader={state.voted_for or ''}\n"


def parse_term(text: str) -> TermAndVote:
    """Unreadable when it does not say both: then nobody knows what this member promised."""
    found = properties(text)
    term, vote = _number(found, "currTerm"), found.get("voteLeader")
    if term is None or term < 0:
        raise Unreadable("it names no term")
    if vote is None or len(vote) > MEMBER_ID_CHARS_MAX:
        raise Unreadable("it does not say who got the vote")
    return TermAndVote(term, vote or None)


def is_member_id(text: str) -> bool:
    """Whether a vote for it can be written down and read again."""
    return (
        0 < len(text) <= MEMBER_ID_CHARS_MAX
        and text.isascii()
        and all(char.isalnum() or char in "._-" for char in text)
    )


def format_owed(place: Place) -> str:
    """Of our own; Java does not know the file."""
    return _summed(f"term={place.term}\nindex={place.index}\n")


def parse_owed(text: str) -> Place:
    """Unreadable for what is torn."""
    found = properties(text)
    term, index = _number(found, "term"), _number(found, "index")
    if term is None or index is None or not _sum_fits(text):
        raise Unreadable("its sum is wrong")
    return Place(term, index)


def _summed(text: str) -> str:
    return f"{text}sum={_sum(text)}\n"


def _sum_fits(text: str) -> bool:
    ours, _, total = text.partition("sum=")
    return total.strip() == str(_sum(ours))


def _sum(text: str) -> int:
    return crc32(text.encode("ascii", "replace"))


def _number(found: Mapping[str, str], name: str) -> int | None:
    """-1, or what a Java long holds from 0 on; None for anything else."""
    text = found.get(name, "")
    if text == "-1":
        return NONE
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    number = int(text)
    return number if number <= _NUMBER_MAX else None
