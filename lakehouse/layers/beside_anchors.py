"""The lake beside anchors: what it was called once, by the word of somebody whom its writers do not
reach.

Refuses to know what a link is made of (`proof.names`), and where anchors are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from events.topics import COMMANDS_TOPIC
from lakehouse import wording
from lakehouse.errors import LakehouseError
from lakehouse.landing.anchoring import is_file, read_anchors
from lakehouse.layers.difference import Compared
from lakehouse.proof import anchors as anchors_of
from lakehouse.proof.anchors import Anchor
from lakehouse.proof.names import NAMED_COLUMNS, BlockName, block_names, first_link
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import DECISIONS

RECORDS_AT_ONCE = 100_000


def compare_anchors(
    lake: Lake, files: BronzeFiles, place: str, storage_options: Mapping[str, str]
) -> Compared:
    """Every anchor at a place. Raises `LakehouseError` when there is none of this cluster."""
    every, told = read_anchors(place, storage_options)
    own = [one for one in every if one.cluster_id == lake.cluster_id]
    if not own:
        others = sorted({one.cluster_id for one in every})
        whose = f", only of {', '.join(others)}" if others else ""
        raise LakehouseError(f"{place} holds no anchor of cluster {lake.cluster_id}{whose}")
    ends = files.ends
    there = [one for one in own if one.end <= ends.get(one.place, 0)]
    names = _names(files, anchors_of.cuts(there))
    begin = {place: first_link(str(lake.cluster_id), *place) for place in names}
    found = Compared(rows=len(own), problems=[*told, *anchors_of.missing(own)])
    found.notices += anchors_of.out_of_order(own) if is_file(place) else ()
    found.notices += anchors_of.uncovered(own, ends)
    found.found(anchors_of.contradicting(own))
    found.found(anchors_of.taken_away(own, ends))
    found.found(anchors_of.held(there, names, begin))
    found.found(anchors_of.digests_held(there, _digests(lake, there)))
    if not found.findings:
        newest = wording.moment(max(one.at_ms for one in own))
        found.notices.append(f"{len(own)} anchors hold, the newest of {newest} UTC")
    return found


def _names(
    files: BronzeFiles, cuts: Mapping[Partition, Collection[int]]
) -> dict[Partition, dict[int, BlockName]]:
    """Up to the last anchor of each partition."""
    found: dict[Partition, dict[int, BlockName]] = {}
    for place, ends in cuts.items():
        mine = found[place] = {}
        first, last = int(files.offsets[place][0]), max(ends)
        for start, rows in files.pieces(place, first, last, RECORDS_AT_ONCE, NAMED_COLUMNS):
            mine |= block_names(rows, min(start + RECORDS_AT_ONCE, last), ends)
    return found


def _digests(lake: Lake, anchors: Sequence[Anchor]) -> dict[int, str]:
    """What is published for the commands that were anchored, the first of each."""
    wanted = [one.offset for one in anchors if one.topic == COMMANDS_TOPIC and one.digest]
    if not wanted:
        return {}
    filters = [("command_offset", "in", wanted)]
    rows = read(lake, DECISIONS, columns=["command_offset", "digest"], filters=filters)
    found: dict[int, str] = {}
    for offset, digest in zip(*rows.to_pydict().values(), strict=True):
        found.setdefault(offset, digest)
    return found
