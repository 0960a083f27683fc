import pyarrow as pa

from lakehouse.tables import column_arrays

LONGS = pa.list_(pa.int64())
TIMES = pa.map_(pa.string(), pa.int64())


def _longs(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int64())


def test_lists_and_maps_are_cut_out_of_their_parts_laid_side_by_side() -> None:
    lists = [(1, 2), (), None, (3,)]
    found = column_arrays.of_lists(LONGS, _longs, lists)
    assert found.equals(pa.array([None if one is None else list(one) for one in lists], LONGS))
    maps = [{"b": 2, "a": 1}, None, {}, {"c": 3}]
    found = column_arrays.of_maps(TIMES, _longs, maps)
    assert found.to_pylist() == [[("a", 1), ("b", 2)], None, [], [("c", 3)]]
    assert found.null_count == 1


def test_no_values_make_an_empty_array_of_the_type() -> None:
    assert column_arrays.of_lists(LONGS, _longs, []).equals(pa.array([], LONGS))
    assert column_arrays.of_maps(TIMES, _longs, []).equals(pa.array([], TIMES))
    assert column_arrays.of_hex([]).equals(pa.array([], pa.string()))


def test_null_is_not_converted() -> None:
    assert column_arrays.of_hex([b"\x01\xff", None, b""]).to_pylist() == ["01ff", None, ""]
    assert column_arrays.of_each(str, pa.string(), [5, None]).to_pylist() == ["5", None]
