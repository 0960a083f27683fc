"""Arrow arrays of many values at a time.

What `pa.array` makes of dicts and lists it makes value by value; here the parts of all values are
laid side by side first, and lists, maps and structs are cut out of them by offsets.
Responsible for arrays that equal those which `pa.array` makes of converted values, null by null.
Refuses to know records and schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

Arrays = Callable[[list[Any]], pa.Array]

_KEY, _ITEM = itemgetter(0), itemgetter(1)


def of_each(convert: Callable[[Any], Any], kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Value by value, for shapes that are rare."""
    return pa.array([None if one is None else convert(one) for one in values], kind)


def of_hex(values: Sequence[bytes | None]) -> pa.Array:
    """Bytes as hex text."""
    return of_each(bytes.hex, pa.string(), values)


def of_lists(kind: pa.DataType, items: Arrays, values: Sequence[Sequence[Any] | None]) -> pa.Array:
    """Lists, of whose items `items` makes an array."""
    there, lacking = _there(values, ())
    flat = items(list(chain.from_iterable(there)))
    return pa.ListArray.from_arrays(_offsets(there), flat, type=kind, mask=lacking)


def of_maps(
    kind: pa.DataType, items: Arrays, values: Sequence[Mapping[str, Any] | None]
) -> pa.Array:
    """Maps by ascending keys, of whose values `items` makes an array."""
    there, lacking = _there(values, {})
    pairs = list(chain.from_iterable(sorted(one.items()) for one in there))
    keys = pa.array(list(map(_KEY, pairs)), pa.string())
    flat = items(list(map(_ITEM, pairs)))
    return pa.MapArray.from_arrays(_offsets(there), keys, flat, type=kind, mask=lacking)


def _there(values: Sequence[Any], empty: Any) -> tuple[Sequence[Any], pa.Array | None]:
    """The values with `empty` in the place of null, and where null is."""
    lacking = [one is None for one in values]
    if True not in lacking:
        return values, None
    return [empty if one is None else one for one in values], pa.array(lacking, pa.bool_())


def _offsets(values: Sequence[Any]) -> pa.Array:
    ends = np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), dtype=np.int32)
    return pa.array(np.concatenate((np.zeros(1, np.int32), ends)))
