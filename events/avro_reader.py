"""Reading the bodies of records fast: straight Python, made from each schema when first needed.

Responsible for bytes as `codec.encode` writes them. Refuses to judge: whatever is unusual (a long
number in more bytes than it needs, an array in parts, bytes missing or left over) raises, and the
caller lets fastavro say what it is, so that what counts as readable never changes (design D3).

Why it exists: fastavro asks a file object for every byte, 17 us for a command with the evidence of
three replicas, which was more than all rules and digests may take. This takes a quarter of it.

Some things are looked up instead of read, because they come again and again: what one leader writes
into all its commands, names and addresses, times. What is remembered is bounded, and whole: bytes
that end too early are never remembered, and equal bytes are equal values.
"""

from collections.abc import Callable, Mapping
from typing import Any

NAMESPACE = "regent."
Reader = Callable[[bytes, int], Any]
"""Takes bytes and where the body begins; it ends with the bytes."""

# Zigzag: the value of every one-byte number.
_SMALL = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128))
# What each of several bytes is worth, the mark that more follow taken away. Looked up, because to
# shift costs four times as much. Odd ones begin negative numbers, which only one byte is used for:
# None does not add up, so that fastavro reads them.
_FIRST = (None,) * 128 + tuple(None if raw & 1 else raw >> 1 for raw in range(128))
_SECOND = tuple(raw << 6 for raw in range(128)) * 2
_THIRD = tuple(raw << 13 for raw in range(128)) * 2
_FOURTH = tuple(raw << 20 for raw in range(128)) * 2
_FIFTH = tuple(raw << 27 for raw in range(128)) * 2
# What the length byte and the bytes of a short text take; 0 where the length needs a look.
_SHORT = tuple(0 if raw & 129 else 1 + (raw >> 1) for raw in range(256))
# Times take six bytes, of which the last four change every few seconds: what these four stand for.
_HIGH: dict[bytes, int] = {}
_HIGH_MAX = 256
_TIME_SUFFIX, _TIME_BYTES = "_at_ms", 6
_TEXTS_MAX = 4096
_INLINE_BYTES = 3
_WIDE_BITS_MAX = 63
# Fields that one leader writes into all its commands: their bytes are those of the last record.
_AS_BEFORE = ("cluster_id", "term", "issuer")
# Fields that are nearly always the same in evidence: the values, and their bytes.
_USUAL_PAIR, _USUAL_VALUES, _USUAL_BYTES = (
    ("alive", "reason"),
    (True, "heartbeat"),
    b"\x01\x12heartbeat",
)


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


class _Texts(dict[bytes, str]):
    """The short texts that came before, each kept once."""

    def __missing__(self, data: bytes) -> str:
        if len(self) >= _TEXTS_MAX:
            self.clear()
        text = self[data] = data.decode()
        return text


_TEXTS = _Texts()


def _wide(data: bytes, p: int) -> tuple[int, int]:
    """Return a number of two bytes or more and where it ends."""
    raw, shift = data[p] & 127, 7
    while data[p := p + 1] > 127:
        raw |= (data[p] & 127) << shift
        shift += 7
    raw |= data[p] << shift
    if not data[p] or shift + 7 > _WIDE_BITS_MAX:
        raise Unusual
    return (raw >> 1) ^ -(raw & 1), p + 1


def _time(data: bytes, p: int) -> tuple[int, int]:
    """Return a time and where it ends; its last four bytes are remembered."""
    if data[p] < 128:
        return _SMALL[data[p]], p + 1
    value, end = _wide(data, p)
    if end == p + _TIME_BYTES and value >= 0:
        if len(_HIGH) >= _HIGH_MAX:
            _HIGH.clear()
        _HIGH[data[p + 2 : end]] = value >> 13 << 13
    return value, end


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
    """The lines of one reader. `p` is where the next byte stands, `q` to `u` are scratch.

    Written out for each field instead of called: a call costs as much as the field.
    """

    def __init__(self, classes: Mapping[str, type], named: dict[str, Any] | None = None) -> None:
        self.lines: list[str] = []
        self._classes = classes
        self._named: dict[str, Any] = {} if named is None else named
        self._globals: dict[str, Any] = {
            "small": _SMALL,
            "first": _FIRST,
            "second": _SECOND,
            "third": _THIRD,
            "fourth": _FOURTH,
            "fifth": _FIFTH,
            "short": _SHORT,
            "texts": _TEXTS,
            "times": _HIGH,
            "wide": _wide,
            "time": _time,
            "size": _size,
            "Unusual": Unusual,
        }
        self._names = 0

    def function(self, name: str, lines: list[str]) -> Callable[..., Any]:
        # The text comes from our own schemas only.
        exec("\n".join(lines), self._globals)
        made: Callable[..., Any] = self._globals[name]
        return made

    def record(self, schema: Mapping[str, Any], target: str, depth: int) -> None:
        self._named[schema["name"]] = schema
        name = schema["name"].removeprefix(NAMESPACE)
        cls: Any = self._classes[name]
        self._globals[name] = cls
        names = [field["name"] for field in schema["fields"]]
        values = {field: self._new() for field in names}
        kinds = {field["name"]: field["type"] for field in schema["fields"]}
        defaults = dict(
            zip(cls.__struct_fields__[::-1], cls.__struct_defaults__[::-1], strict=False)
        )
        while names:
            together = next(
                (run for run in (_AS_BEFORE, _USUAL_PAIR) if tuple(names[: len(run)]) == run), ()
            )
            run = [(values[field], kinds[field]) for field in together]
            if together == _AS_BEFORE:
                self._as_before(run, depth)
            elif together == _USUAL_PAIR:
                self._usual_pair(run, depth)
            else:
                self._field(
                    names[0], kinds[names[0]], values[names[0]], defaults.get(names[0]), depth
                )
            del names[: len(together) or 1]
        self._add(depth, f"{target} = {name}({', '.join(values.values())})")

    def _field(self, name: str, kind: Any, target: str, usual: Any, depth: int) -> None:
        if kind == "long" and len(_bytes_of(usual or 0)) > _INLINE_BYTES:
            self._long_mostly(usual, target, depth)
        elif kind == "long" and name.endswith(_TIME_SUFFIX):
            self._time(target, depth)
        else:
            self._value(kind, target, depth)

    def _as_before(self, run: list[tuple[str, Any]], depth: int) -> None:
        """Fields whose bytes are mostly those of the last record: then the values are the same
        too.
        """
        memory, values = self._new(), ", ".join(value for value, _ in run)
        # Nothing begins with one of no prefixes.
        self._globals[memory] = ((), 0, *(None for _ in run))
        self._add(depth, f"global {memory}", f"same, width, {values} = {memory}")
        self._add(depth, "if data.startswith(same, p): p += width", "else:")
        self._add(depth + 1, "begin = p")
        for value, kind in run:
            self._value(kind, value, depth + 1)
        # A text that was cut short ends beyond the data.
        self._add(depth + 1, f"if p <= len(data): {memory} = data[begin:p], p - begin, {values}")

    def _usual_pair(self, run: list[tuple[str, Any]], depth: int) -> None:
        size = len(_USUAL_BYTES)
        self._add(depth, f"if data[p:p + {size}] == {_USUAL_BYTES!r}:")
        for (value, _), usual in zip(run, _USUAL_VALUES, strict=True):
            self._add(depth + 1, f"{value} = {usual!r}")
        self._add(depth + 1, f"p += {size}")
        self._add(depth, "else:")
        for value, kind in run:
            self._value(kind, value, depth + 1)

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
        # Up to five bytes here, the place in a log of 16 GiB; what is wider elsewhere.
        self._add(depth, "q = data[p]", f"if q < 128: {target} = small[q]; p += 1", "else:")
        self._add(
            depth + 1,
            "r = data[p + 1]",
            f"if r < 128: {target} = first[q] + second[r]; p += 2",
            "else:",
        )
        worth = f"{target} = first[q] + second[r] + third[s]"
        self._add(depth + 2, "s = data[p + 2]", f"if s < 128: {worth}; p += 3", "else:")
        worth += " + fourth[t]"
        self._add(depth + 3, "t = data[p + 3]", f"if t < 128: {worth}; p += 4", "else:")
        worth += " + fifth[u]"
        self._add(depth + 4, "u = data[p + 4]", f"if u < 128: {worth}; p += 5")
        self._add(depth + 4, f"else: {target}, p = wide(data, p)")

    def _time(self, target: str, depth: int) -> None:
        self._add(depth, "q, r, high = data[p], data[p + 1], times.get(data[p + 2:p + 6])")
        self._add(
            depth,
            f"if high is not None and q > 127 < r: {target} = first[q] + second[r] + high; p += 6",
        )
        self._add(depth, f"else: {target}, p = time(data, p)")

    def _long_mostly(self, usual: int, target: str, depth: int) -> None:
        """A number that is nearly always the default of its field: one comparison finds it."""
        raw = _bytes_of(usual)
        self._add(
            depth,
            f"if data[p:p + {len(raw)}] == {raw!r}: {target} = {usual}; p += {len(raw)}",
            "else:",
        )
        self._long(target, depth + 1)

    def _boolean(self, target: str, depth: int) -> None:
        self._add(depth, f"{target} = data[p] != 0", "p += 1")

    def _bytes(self, target: str, depth: int) -> None:
        self._sized(f"{target} = data[p + 1:q]", f"{target} = data[p:q]", depth)

    def _string(self, target: str, depth: int) -> None:
        self._sized(f"{target} = texts[data[p + 1:q]]", f"{target} = data[p:q].decode()", depth)

    def _sized(self, if_short: str, if_long: str, depth: int) -> None:
        self._add(depth, "q = short[data[p]]", "if q:")
        self._add(depth + 1, "q += p", if_short, "p = q")
        self._add(depth, "else:")
        self._add(depth + 1, "q, p = size(data, p + 1)", "q = p + (q >> 1)", if_long, "p = q")

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
        if kind["values"] == "long":  # When each phase of a decision was.
            self._time(value, depth + 2)
        else:
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
