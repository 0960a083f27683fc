"""Writing records fast: straight Python, made from each schema; the twin of `avro_reader`.

Responsible for the very bytes that fastavro writes. Refuses to judge: whatever is unusual (a value
of another type than the schema's own, a list for a tuple, a number too large) raises, and the
caller lets fastavro say what it is, so that what has bytes, and which, never changes (design D3).

Why it exists: fastavro wants a dictionary of every record within a record, and looks up what it
knows of each field; an outcome took longer to write than to decide.
"""

from collections.abc import Callable, Mapping
from typing import Any

from events.avro_reader import NAMESPACE, Unusual

Writer = Callable[[Any], bytes]

_BITS = 14
_MASK = (1 << _BITS) - 1
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_ENDS = [bytes((part,)) for part in range(128)]
_GOES_ON = [bytes((part | 128,)) for part in range(128)]
# What 14 bits look like where more follow, and where they are the last.
_MORE = tuple([low + high for high in _GOES_ON for low in _GOES_ON])
_LAST = (*_ENDS, *[low + high for high in _ENDS[1:] for low in _GOES_ON])
_SMALL_MAX = 1 << (_BITS - 1)
# By number: negative ones count from the end, as they do in Python.
_SMALL = _LAST[::2] + _LAST[1::2][::-1]
_TEXTS_MAX = 1024
_TEXT_BYTES_MAX = 64
# Names, ids and causes come again and again.
_TEXTS: dict[str, bytes] = {}


def writer_of(schema: Mapping[str, Any], classes: Mapping[str, type], head: bytes = b"") -> Writer:
    """Return what writes `head` and a record of a schema whose named types stand where they are
    first used.
    """
    return _Source(classes, {}).writer(schema, head)


def _wide(number: int) -> bytes:
    """Return a number of three bytes or more."""
    raw = (number << 1) ^ (number >> 63)
    if raw >> 3 * _BITS == 0:  # Times and offsets.
        low, middle, high = raw & _MASK, raw >> _BITS & _MASK, raw >> 2 * _BITS
        return _MORE[low] + _MORE[middle] + _LAST[high] if high else _MORE[low] + _LAST[middle]
    if not _LONG_MIN <= number <= _LONG_MAX:
        raise Unusual
    form = b""
    while raw > _MASK:
        form += _MORE[raw & _MASK]
        raw >>= _BITS
    return form + _LAST[raw]


def _size(count: int) -> bytes:
    return _SMALL[count] if count < _SMALL_MAX else _wide(count)


def _text(value: str) -> bytes:
    """Return a text that was not written lately."""
    if value.__class__ is not str:
        raise Unusual
    data = value.encode()
    form = _size(len(data)) + data
    if len(data) <= _TEXT_BYTES_MAX:
        if len(_TEXTS) >= _TEXTS_MAX:
            _TEXTS.clear()
        _TEXTS[value] = form
    return form


class _Source:
    """The lines of one writer: each field becomes a value of its own, all are joined at the end.

    Written out for each field instead of called: a call costs as much as the field.
    """

    def __init__(self, classes: Mapping[str, type], named: dict[str, Any]) -> None:
        self._classes = classes
        self._named = named
        self._lines: list[str] = []
        self._globals: dict[str, Any] = {
            "small": _SMALL,
            "wide": _wide,
            "size": _size,
            "text": _text,
            "known": _TEXTS.get,
            "Unusual": Unusual,
        }
        self._names = 0

    def writer(self, schema: Mapping[str, Any], head: bytes) -> Writer:
        """Return the function that writes `head` and one record."""
        parts = self._record(schema, "value", 1)
        first = [repr(head)] if head else []
        lines = [
            "def write(value):",
            *self._lines,
            f"    return b''.join(({', '.join([*first, *parts])},))",
        ]
        # The text comes from our own schemas only.
        exec("\n".join(lines), self._globals)
        made: Writer = self._globals["write"]
        return made

    def _value(self, kind: Any, value: str, depth: int) -> list[str]:
        """Add the lines for one value; return the names of its parts."""
        if isinstance(kind, list):
            return self._union(kind, value, depth)
        if isinstance(kind, str) and kind in self._named:
            kind = self._named[kind]
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "record":
            return self._record(kind, value, depth)
        part = self._new()
        getattr(self, f"_{name}")(kind, value, part, depth)
        return [part]

    def _record(self, schema: Mapping[str, Any], value: str, depth: int) -> list[str]:
        self._named[schema["name"]] = schema
        name = schema["name"].removeprefix(NAMESPACE)
        self._globals[name] = self._classes[name]
        self._check(value, name, depth)
        parts: list[str] = []
        for field in schema["fields"]:
            one = self._new()
            self._add(depth, f"{one} = {value}.{field['name']}")
            parts += self._value(field["type"], one, depth)
        return parts

    def _long(self, _kind: Any, value: str, part: str, depth: int) -> None:
        self._check(value, "int", depth)
        self._add(
            depth,
            f"{part} = small[{value}] if {-_SMALL_MAX} <= {value} < {_SMALL_MAX} else "
            f"wide({value})",
        )

    def _boolean(self, _kind: Any, value: str, part: str, depth: int) -> None:
        self._check(value, "bool", depth)
        self._add(depth, f"{part} = {bytes((1,))!r} if {value} else {bytes(1)!r}")

    def _string(self, _kind: Any, value: str, part: str, depth: int) -> None:
        self._add(depth, f"{part} = known({value}) or text({value})")

    def _bytes(self, _kind: Any, value: str, part: str, depth: int) -> None:
        self._check(value, "bytes", depth)
        self._add(depth, f"{part} = size(len({value})) + {value}")

    def _fixed(self, kind: Mapping[str, Any], value: str, part: str, depth: int) -> None:
        self._named[kind["name"]] = kind
        self._check(value, "bytes", depth)
        self._add(depth, f"if len({value}) != {kind['size']}: raise Unusual", f"{part} = {value}")

    def _array(self, kind: Mapping[str, Any], value: str, part: str, depth: int) -> None:
        item = self._new()
        self._check(value, "tuple", depth)
        self._many(depth, value, part, item)
        parts = self._value(kind["items"], item, depth + 2)
        self._end_of_block(depth, part, parts)

    def _map(self, kind: Mapping[str, Any], value: str, part: str, depth: int) -> None:
        key, one = self._new(), self._new()
        self._check(value, "dict", depth)
        self._many(depth, f"{value}.items()", part, f"{key}, {one}")
        parts = [
            *self._value("string", key, depth + 2),
            *self._value(kind["values"], one, depth + 2),
        ]
        self._end_of_block(depth, part, parts)

    def _many(self, depth: int, values: str, part: str, item: str) -> None:
        self._add(depth, f"{part} = {bytes(1)!r}", f"if {values}:")
        self._add(depth + 1, f"{part} = [size(len({values}))]", f"for {item} in {values}:")

    def _end_of_block(self, depth: int, block: str, parts: list[str]) -> None:
        self._add(depth + 2, f"{block} += ({', '.join(parts)},)")
        self._add(depth + 1, f"{block}.append({bytes(1)!r})", f"{block} = b''.join({block})")

    def _union(self, branches: list[Any], value: str, depth: int) -> list[str]:
        part = self._new()
        if branches[0] == "null" and len(branches) == 2:
            self._add(depth, f"if {value} is None: {part} = {bytes(1)!r}", "else:")
            parts = self._value(branches[1], value, depth + 1)
            self._add(depth + 1, f"{part} = {' + '.join([repr(bytes((2,))), *parts])}")
            return [part]
        # A dictionary of functions: a chain of comparisons would grow with every record.
        table = self._new()
        self._globals[table] = dict(self._branch(index, one) for index, one in enumerate(branches))
        self._add(depth, f"{part} = {table}[{value}.__class__]({value})")
        return [part]

    def _branch(self, index: int, schema: Any) -> tuple[type, Writer]:
        schema = self._named[schema] if isinstance(schema, str) else schema
        cls = self._classes[schema["name"].removeprefix(NAMESPACE)]
        return cls, _Source(self._classes, self._named).writer(schema, _SMALL[index])

    def _check(self, value: str, cls: str, depth: int) -> None:
        self._add(depth, f"if {value}.__class__ is not {cls}: raise Unusual")

    def _new(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _add(self, depth: int, *lines: str) -> None:
        self._lines.extend("    " * depth + line for line in lines)
