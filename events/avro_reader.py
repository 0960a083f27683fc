"""
Reading the bodies of records fast: straight Python, made from each schema at import.

Responsible for bytes as `codec.encode` writes them. Refuses to judge: whatever is unusual (a value
in more bytes than it needs, an array in parts, bytes missing or left over) raises, and the caller
lets fastavro say what it is, so that what counts as readable never changes (design D3).

Why it exists: fastavro asks a file object for every byte, 17 us for a command with the evidence of
three replicas, which was more than all rules and digests may take. This takes half of it.
"""

from collections.abc import Callable, Mapping
from typing import Any

NAMESPACE = "regent."
Reader = Callable[[bytes, int], Any]
"""Takes bytes and where the body begins; it ends with the bytes."""

# Zigzag: the value of every one-byte number, None where more bytes follow.
_SMALL = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128)) + (None,) * 128
# What the length byte and the bytes of a short text take; 0 where the length needs a look.
_SHORT = tuple(0 if raw & 129 else 1 + (raw >> 1) for raw in range(256))
# Times take six bytes, of which the last four change every few seconds: what these four stand for.
_HIGH: dict[bytes, int] = {}
_HIGH_MAX = 256
_INLINE_BYTES = 3
_WIDE_BITS_MAX = 63


class Unusual(Exception):
    """Not as `codec.encode` writes it; it may be readable all the same."""


def reader_of(schema: Mapping[str, Any], classes: Mapping[str, type]) -> Reader:
    """Return the reader of a record schema whose named types stand where they are first used."""
    source = _Source(classes)
    source.record(schema, "value", 1)
    lines = [
        "def read(data, p):",
        *source.lines,
        "    if p != len(data): raise Unusual",
        "    return value",
    ]
    return source.function("read", lines)


def _wide(data: bytes, p: int) -> tuple[int, int]:
    """Return a number of two bytes or more and where it ends."""
    high = _HIGH.get(data[p + 2 : p + 6])
    if high is not None and data[p] > 127 < data[p + 1]:
        raw = data[p] + (data[p + 1] << 7) + high
        return (raw >> 1) ^ -(raw & 1), p + 6
    begin = p
    raw, shift = data[p] & 127, 7
    while data[p := p + 1] > 127:
        raw |= (data[p] & 127) << shift
        shift += 7
    raw |= data[p] << shift
    if not data[p] or shift + 7 > _WIDE_BITS_MAX:
        raise Unusual
    if p == begin + 5:
        if len(_HIGH) >= _HIGH_MAX:
            _HIGH.clear()
        _HIGH[data[begin + 2 : p + 1]] = (raw >> 14 << 14) - 0x4080
    return (raw >> 1) ^ -(raw & 1), p + 1


def _size(data: bytes, p: int) -> tuple[int, int]:
    """Return twice a length that needs more than the byte before `p`, and where it ends."""
    size, p = _wide(data, p - 1) if data[p - 1] > 127 else (-1, p)
    if size < 0:
        raise Unusual
    return 2 * size, p


def _bytes_of(number: int) -> bytes:
    """Return the Avro form of a number."""
    raw, form = (number << 1) ^ (number >> 63), bytearray()
    while raw > 127:
        form.append(raw & 127 | 128)
        raw >>= 7
    return bytes((*form, raw))


class _Source:
    """
    The lines of one reader. `p` is where the next byte stands, `q` is scratch.

    Written out for each field instead of called: a call costs as much as the field.
    """

    def __init__(self, classes: Mapping[str, type], named: dict[str, Any] | None = None) -> None:
        self.lines: list[str] = []
        self._classes = classes
        self._named: dict[str, Any] = {} if named is None else named
        self._globals: dict[str, Any] = {"small": _SMALL, "short": _SHORT, "wide": _wide, "size": _size, "Unusual": Unusual}
        self._names = 0

    def function(self, name: str, lines: list[str]) -> Callable[..., Any]:
        exec("\n".join(lines), self._globals)  # noqa: S102 - the text comes from our own schemas only.
        made: Callable[..., Any] = self._globals[name]
        return made

    def record(self, schema: Mapping[str, Any], target: str, depth: int) -> None:
        self._named[schema["name"]] = schema
        name = schema["name"].removeprefix(NAMESPACE)
        cls = self._globals[name] = self._classes[name]
        values = [self._new() for _ in schema["fields"]]
        defaults = dict(zip(cls.__struct_fields__[::-1], cls.__struct_defaults__[::-1], strict=False))
        for value, field in zip(values, schema["fields"], strict=True):
            usual = defaults.get(field["name"])
            if field["type"] == "long" and len(_bytes_of(usual or 0)) > _INLINE_BYTES:
                self._long_mostly(usual, value, depth)
            else:
                self._value(field["type"], value, depth)
        self._add(depth, f"{target} = {name}({', '.join(values)})")

    def _value(self, kind: Any, target: str, depth: int) -> None:
        if isinstance(kind, list):
            return self._union(kind, target, depth)
        if isinstance(kind, str) and kind in self._named:
            kind = self._named[kind]
        write = getattr(self, f"_{kind if isinstance(kind, str) else kind['type']}")
        return write(target, depth) if isinstance(kind, str) else write(kind, target, depth)

    def _record(self, kind: Mapping[str, Any], target: str, depth: int) -> None:
        self.record(kind, target, depth)

    def _long(self, target: str, depth: int) -> None:
        self._add(depth, f"{target} = small[data[p]]", f"if {target} is not None: p += 1", "else:")
        # Two and three bytes here, what is wider elsewhere; each 128 is a mark that more follows.
        self._add(depth + 1, "q = data[p + 1]", "if 0 < q < 128:")
        self._add(depth + 2, "q = (q << 7) + data[p] - 0x80", f"{target} = (q >> 1) ^ -(q & 1)", "p += 2")
        self._add(depth + 1, "else:")
        self._add(depth + 2, f"{target} = data[p + 2]", f"if q > 127 and 0 < {target} < 128:")
        self._add(depth + 3, f"q = data[p] + (q << 7) + ({target} << 14) - 0x4080")
        self._add(depth + 3, f"{target} = (q >> 1) ^ -(q & 1)", "p += 3")
        self._add(depth + 2, f"else: {target}, p = wide(data, p)")

    def _long_mostly(self, usual: int, target: str, depth: int) -> None:
        """A number that is nearly always the default of its field: one comparison finds it."""
        raw = _bytes_of(usual)
        self._add(depth, f"if data[p:p + {len(raw)}] == {raw!r}: {target} = {usual}; p += {len(raw)}", "else:")
        self._long(target, depth + 1)

    def _boolean(self, target: str, depth: int) -> None:
        self._add(depth, f"{target} = data[p] != 0", "p += 1")

    def _bytes(self, target: str, depth: int, decoded: str = "") -> None:
        self._add(depth, "q = short[data[p]]", "if q:")
        self._add(depth + 1, f"{target} = data[p + 1:p + q]{decoded}", "p += q")
        self._add(depth, "else:")
        self._add(depth + 1, "q, p = size(data, p + 1)", "q = p + (q >> 1)")
        self._add(depth + 1, f"{target} = data[p:q]{decoded}", "p = q")

    def _string(self, target: str, depth: int) -> None:
        self._bytes(target, depth, ".decode()")

    def _fixed(self, kind: Mapping[str, Any], target: str, depth: int) -> None:
        self._named[kind["name"]] = kind
        self._add(depth, f"{target} = data[p:p + {kind['size']}]", f"p += {kind['size']}")

    def _array(self, kind: Mapping[str, Any], target: str, depth: int) -> None:
        item, items = self._new(), self._new()
        self._length(depth)
        self._add(depth, f"{items} = []", "if q:")
        self._add(depth + 1, "for _ in range(q >> 1):")
        self._value(kind["items"], item, depth + 2)
        self._add(depth + 2, f"{items}.append({item})")
        self._end_of_block(depth + 1)
        self._add(depth, f"{target} = tuple({items})")

    def _map(self, kind: Mapping[str, Any], target: str, depth: int) -> None:
        key, value = self._new(), self._new()
        self._length(depth)
        self._add(depth, f"{target} = {{}}", "if q:")
        self._add(depth + 1, "for _ in range(q >> 1):")
        self._string(key, depth + 2)
        self._value(kind["values"], value, depth + 2)
        self._add(depth + 2, f"{target}[{key}] = {value}")
        self._end_of_block(depth + 1)

    def _union(self, branches: list[Any], target: str, depth: int) -> None:
        if branches[0] == "null" and len(branches) == 2:
            self._add(depth, "q = data[p]", "p += 1", "if q == 2:")
            self._value(branches[1], target, depth + 1)
            self._add(depth, f"elif q == 0: {target} = None", "else: raise Unusual")
            return
        # A dictionary of functions: a chain of comparisons would grow with every record.
        table = self._new()
        self._globals[table] = {2 * index: self._branch(one) for index, one in enumerate(branches)}
        self._add(depth, f"{target}, p = {table}[data[p]](data, p + 1)")

    def _branch(self, schema: Any) -> Callable[..., Any]:
        source = _Source(self._classes, self._named)
        source.record(self._named[schema] if isinstance(schema, str) else schema, "value", 1)
        return source.function("read", ["def read(data, p):", *source.lines, "    return value, p"])

    def _length(self, depth: int) -> None:
        # One test for both: 128 is set where more bytes follow, 1 where it is negative.
        self._add(depth, "q = data[p]", "p += 1", "if q & 129: q, p = size(data, p)")

    def _end_of_block(self, depth: int) -> None:
        self._add(depth, "if data[p]: raise Unusual", "p += 1")

    def _new(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _add(self, depth: int, *lines: str) -> None:
        self.lines.extend("    " * depth + line for line in lines)
