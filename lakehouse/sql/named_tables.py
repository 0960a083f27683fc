"""Every table of every layer by the name that people write: `gold.failovers`, `silver.decisions`,
`bronze.records`.

Responsible for which names there are, for what a query mentions, and for opening a table so that
whoever asks sees the rows of one cluster as of now: bronze and silver from their Delta tables, gold
as `gold.now` gives it. A table that this release does not know, of a record kind that came later or
of another job, is found by its place in the lake.
Refuses to know who asks: SQL, Spark or a person with data frames.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from lakehouse.errors import NotLanded
from lakehouse.gold.now import GoldNow, gold_now, gold_settled
from lakehouse.gold.specs import GOLD_BY_NAME, GOLD_TABLES
from lakehouse.tables.columns import Column
from lakehouse.tables.delta import dataset_of, open_table
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import cannot_be_read
from lakehouse.tables.specs import CLUSTER_ID, LANDING_TABLES, TableSpec

LAYERS = ("gold", "silver", "bronze")
KNOWN: Mapping[str, TableSpec] = {
    spec.name.replace("/", "."): spec
    for layer in LAYERS
    for spec in (*GOLD_TABLES, *LANDING_TABLES)
    if spec.layer == layer
}
_MENTION = re.compile(
    r"""\b(bronze|silver|gold)["`]?\s*\.\s*["`]?([a-z_][a-z0-9_]*)""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Opened:
    """Tables ready to be read, and up to where those of gold speak (None without one)."""

    tables: Mapping[str, ds.Dataset]
    specs: Mapping[str, TableSpec]
    gold: GoldNow | None


def mentioned(query: str) -> list[str]:
    """The names of tables in a query, in lower case; also those in its texts and comments, which
    does no harm.
    """
    return list(dict.fromkeys(f"{layer}.{noun}".lower() for layer, noun in _MENTION.findall(query)))


def layered(nouns: Iterable[str]) -> list[str]:
    """Names of tables that are written without their layer; gold's is meant first. Words that name
    none are left out.
    """
    known = [f"{layer}.{noun.lower()}" for noun in nouns for layer in LAYERS]
    found: dict[str, str] = {}
    for name in known:
        if name in KNOWN:
            found.setdefault(name.partition(".")[2], name)
    return list(found.values())


def listed(lake: Lake) -> dict[str, TableSpec]:
    """All tables by name: those of this release, and what else lies there (that in a folder only:
    an object store is not searched).
    """
    logs = (
        []
        if lake.folder is None
        else sorted(path for layer in LAYERS for path in lake.folder.glob(f"{layer}/*/_delta_log"))
    )
    names = dict.fromkeys(
        (*KNOWN, *(f"{path.parent.parent.name}.{path.parent.name}" for path in logs))
    )
    return {
        name: spec_named(lake, name)
        for name in sorted(names, key=lambda name: LAYERS.index(name.partition(".")[0]))
    }


def there(lake: Lake, names: Sequence[str] | None = None) -> dict[str, TableSpec]:
    """Of all tables those that have been made, or of `names` all. Raises `NotLanded` for a name
    that there is not.
    """
    if names is not None:
        wanted = {name: spec_named(lake, name) for name in names}
        for spec in wanted.values():
            open_table(lake, spec)
        return wanted
    return {name: spec for name, spec in listed(lake).items() if _is_made(lake, spec)}


def _is_made(lake: Lake, spec: TableSpec) -> bool:
    if lake.folder is not None:
        return (lake.folder / spec.name / "_delta_log").is_dir()
    try:
        open_table(lake, spec)
    except NotLanded:
        return False
    return True


def spec_named(lake: Lake, name: str) -> TableSpec:
    """The table of that name. Raises `NotLanded` with the nearest names when there is none."""
    if name in KNOWN:
        return KNOWN[name]
    spec = TableSpec(name=name.replace(".", "/"), meaning="", columns=(), key=())
    try:
        found = open_table(lake, spec)
    except NotLanded as error:
        near = difflib.get_close_matches(name, KNOWN, n=3, cutoff=0.7)
        hint = f"did you mean {' or '.join(near)}?" if near else "'regent sql' lists the tables"
        raise NotLanded(f"there is no table {name}; {hint}") from error
    return _as_it_lies(spec.name, found)


def open_named(lake: Lake, names: Sequence[str]) -> Opened:
    """The cluster's rows of these tables.

    Raises `NotLanded` for a table that is not there, `LakehouseError` for one that cannot be read.
    """
    specs = {name: spec_named(lake, name) for name in names}
    gold = gold_of(lake, list(specs.values()))
    folded = {} if gold is None else gold.tables
    tables = {
        name: ds.dataset(folded[spec.name]) if spec.name in folded else _dataset(lake, spec)
        for name, spec in specs.items()
    }
    return Opened(tables, specs, gold)


def gold_of(lake: Lake, specs: Sequence[TableSpec]) -> GoldNow | None:
    """Up to where the gold among these tables speaks, None without any; with its rows unless the
    Delta tables hold all.
    """
    gold = [GOLD_BY_NAME[spec.name] for spec in specs if spec.name in GOLD_BY_NAME]
    return (gold_settled(lake, gold) or gold_now(lake, gold)) if gold else None


def _dataset(lake: Lake, spec: TableSpec) -> ds.Dataset:
    try:
        found = dataset_of(open_table(lake, spec), spec)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(lake, spec, error) from error
    return (
        found if lake.cluster_id is None else found.filter(pc.field(CLUSTER_ID) == lake.cluster_id)
    )


def _as_it_lies(name: str, found: deltalake.DeltaTable) -> TableSpec:
    """What the table says of itself."""
    columns = tuple(
        Column(
            field.name,
            pa.field(field).type,
            str((field.metadata or {}).get("comment", "")),
            bool(field.nullable),
        )
        for field in found.schema().fields
    )
    return TableSpec(name=name, meaning=found.metadata().description or "", columns=columns, key=())
