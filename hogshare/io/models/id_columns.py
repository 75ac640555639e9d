"""Ids of many kinds as arrays: a list of Python values in a file without pickle.

A column is a list of values. It is stored by kind; the values of each kind become arrays of
numbers:

    {"column": [n, kinds, [[kind, body], ...]]}

`kinds` is an array: for each value, the place of its kind in the list. It is None if there is only
one kind. Bytes are concatenated, and their lengths are stored. Strings are stored as the bytes of
UTF-8. The elements of all tuples, or of all frozensets, are stored as another column, with the
number of elements of each. Only values of exactly the listed types are stored, since a value of a
subclass would be read as another type.

Reading a column creates values of no other types, and checks that lengths and counts agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from hogshare.system import memory

Arrays = Mapping[str, np.ndarray]
EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
FITTING = range(-(1 << 63), 1 << 63)  # whole numbers within the range of int64
VALUE_BYTES = 200  # bytes of a UUID, the largest kind with a fixed size, and a reference to it
SCALARS = "biufmM"  # kinds of NumPy's scalars


def write(values: list[Any], name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a column as JSON; add its arrays to `arrays`, with names that begin with `name`.

    Raises
    ------
    TypeError
        If the kind of a value is not supported; the message completes a sentence whose subject is
        the value.
    """
    kinds = [_kind(value) for value in values]
    places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}

    def stored(array: Any, what: str) -> Any:
        arrays[f"{name}.{what}"] = np.asarray(array)
        return {"array": f"{name}.{what}"}

    codes = stored([places[kind] for kind in kinds], "kinds") if len(places) > 1 else None
    parts = []
    for kind, place in places.items():
        own = [value for value, of in zip(values, kinds, strict=True) if of == kind]
        put = Storing(f"{name}.{place}", arrays)
        parts.append([kind, _form(kind).write(own, put)])
    return {"column": [len(values), codes, parts]}


def read(said: Any, arrays: Arrays) -> list[Any]:
    """Return the values of a column.

    Raises
    ------
    ValueError, TypeError, KeyError, OverflowError
        If the JSON and the arrays are not a valid column.
    MemoryError
        If the values need more memory than is free.
    """
    n, codes, parts = said
    if type(n) is not int or n < 0:
        raise ValueError(f"a column of {n!r} values")
    places = np.zeros(0, np.int64)
    if codes is not None:
        places = _array(codes, arrays, "iu")
        if len(places) != n or (n and int(places.max()) >= len(parts)):
            raise ValueError("a column whose kinds are not those of its values")
    elif len(parts) != min(n, 1):
        raise ValueError("a column that does not say which of its values is of which kind")
    found = []
    for place, (kind, body) in enumerate(parts):
        own = n if codes is None else int(np.count_nonzero(places == place))
        read_part = _form(kind).read(body, arrays, own)
        if len(read_part) != own:
            raise ValueError(f"a column with {len(read_part)} values of {kind}, and {own} places")
        found.append(read_part)
    if codes is None:
        return found[0] if found else []
    # values of each kind are in the column's order: take the next value of the right kind
    lists = [iter(part) for part in found]
    return [next(lists[place]) for place in places.tolist()]


class Storing:
    """Adds arrays to a file, with names that begin with the name of a column's part."""

    def __init__(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        self._name, self._arrays, self._n = name, arrays, 0

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Store an array of numbers."""
        name = self._next()
        self._arrays[name] = np.asarray(values, dtype=dtype)
        return {"array": name}

    def column(self, values: list[Any]) -> Any:
        """Store a column of the parts of values."""
        return write(values, self._next(), self._arrays)

    def _next(self) -> str:
        self._n += 1
        return f"{self._name}.{self._n - 1}"


class IdForm(NamedTuple):
    """The functions that store and read the values of a kind."""

    write: Callable[[list[Any], Storing], Any]
    read: Callable[[Any, Arrays, int], list[Any]]


def _kind(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return "int" if value in FITTING else "large int"
    if kind in KINDS:
        return KINDS[kind]
    if isinstance(value, np.generic) and value.dtype.kind in SCALARS:
        return value.dtype.str
    if inspect.isroutine(value):
        raise TypeError("is a function")
    raise TypeError(f"contains a value of the type {kind.__module__}.{kind.__qualname__}")


def _form(kind: Any) -> IdForm:
    """Return the functions that store and read a kind: a key of `FORMS`, or the name of a dtype."""
    if kind in FORMS:
        return FORMS[kind]
    dtype = np.dtype(str(kind))
    if dtype.kind not in SCALARS or dtype.itemsize > 16:
        raise ValueError(f"a column of {kind!r}")

    def of_scalars(values: list[Any], put: Storing) -> Any:
        array = np.array(values, dtype=dtype)
        return put.array(array.view(np.int64) if dtype.kind in "mM" else array)

    def scalars(body: Any, arrays: Arrays, n: int) -> list[Any]:
        array = _array(body, arrays, "i" if dtype.kind in "mM" else dtype.kind)
        if dtype.kind in "mM":
            array = array.astype(np.int64).view(dtype)
            if np.isnat(array).any():
                raise ValueError("NaT is not an id")
        elif array.dtype != dtype:
            raise ValueError(f"a column of {kind} with numbers of {array.dtype}")
        return list(array)

    return IdForm(of_scalars, scalars)


def _array(said: Any, arrays: Arrays, kinds: str) -> np.ndarray:
    """Return a one-dimensional array of one of these kinds, if memory suffices for its values."""
    array = arrays[said["array"]]
    if array.dtype.kind not in kinds or array.ndim != 1:
        raise ValueError(f"the array {said['array']} is one of {array.dtype}")
    memory.require(len(array) * VALUE_BYTES, f"the array {said['array']}")
    return array


def _lengths(said: Any, arrays: Arrays, n: int, total: int) -> list[int]:
    """Return the lengths of n values, whose sum must be `total`."""
    lengths = _array(said, arrays, "iu")
    found: list[int] = lengths.tolist()
    if len(found) != n or min(found, default=0) < 0 or sum(found) != total:
        raise ValueError("a column whose lengths are not those of its values")
    return found


def _cut(values: Any, lengths: Iterable[int]) -> Iterable[Any]:
    end = 0
    for length in lengths:
        yield values[end : end + length]
        end += length


def _nothing(values: list[Any], put: Storing) -> Any:
    return None


def _nones(body: Any, arrays: Arrays, n: int) -> list[Any]:
    memory.require(n * VALUE_BYTES, "a column")
    return [None] * n


def _numbers(dtype: Any) -> IdForm:
    """Return the functions for values that an array stores directly."""
    kind = np.dtype(dtype).kind
    return IdForm(
        lambda values, put: put.array(values, dtype),
        lambda body, arrays, n: list(_array(body, arrays, kind).tolist()),
    )


def _write_bytes(values: list[bytes], put: Storing) -> Any:
    whole = np.frombuffer(b"".join(values), np.uint8)
    return [put.array(whole), put.array([len(value) for value in values], np.int64)]


def _read_bytes(body: Any, arrays: Arrays, n: int) -> list[bytes]:
    whole, lengths = body
    stored = arrays[whole["array"]]
    if stored.dtype != np.uint8 or stored.ndim != 1:
        raise ValueError(f"the array {whole['array']} is one of {stored.dtype}")
    return list(_cut(stored.tobytes(), _lengths(lengths, arrays, n, len(stored))))


def _as_bytes(to: Callable[[Any], bytes], made: Callable[[bytes], Any]) -> IdForm:
    """Return the functions for values that are stored as bytes."""
    return IdForm(
        lambda values, put: _write_bytes([to(value) for value in values], put),
        lambda body, arrays, n: [made(one) for one in _read_bytes(body, arrays, n)],
    )


def _of_parts(made: Callable[[Any], Any]) -> IdForm:
    """Return the functions for values that are containers."""

    def write_parts(values: list[Any], put: Storing) -> Any:
        parts = [part for value in values for part in value]
        return [put.array([len(value) for value in values], np.int64), put.column(parts)]

    def read_parts(body: Any, arrays: Arrays, n: int) -> list[Any]:
        lengths, column = body
        parts = read(column["column"], arrays)
        return [made(some) for some in _cut(parts, _lengths(lengths, arrays, n, len(parts)))]

    return IdForm(write_parts, read_parts)


def _write_times(values: list[datetime], put: Storing) -> Any:
    zones: dict[Any, int] = {}
    codes = [zones.setdefault(_zone(value), len(zones)) for value in values]
    clocks = [(value.replace(tzinfo=None, fold=0) - EPOCH) // MICROSECOND for value in values]
    folds = [value.fold for value in values]
    return [
        put.array(clocks, np.int64),
        put.array(folds, np.uint8),
        put.array(codes, np.int64),
        list(zones),
    ]


def _zone(value: datetime) -> Any:
    """Return the zone of a time: None, its name, or its offset from UTC in microseconds."""
    if value.tzinfo is None:
        return None
    if type(value.tzinfo) is ZoneInfo and value.tzinfo.key is not None:
        return value.tzinfo.key
    ahead = value.utcoffset()
    # another library's zone is stored as its offset; the moment is equal unless the clock repeats
    # it
    if ahead is None or value.replace(tzinfo=timezone(ahead)) != value:
        kind = type(value.tzinfo)
        raise TypeError(
            f"contains a value of the type datetime.datetime, with a zone of the type "
            f"{kind.__module__}.{kind.__qualname__}"
        )
    return ahead // MICROSECOND


def _read_times(body: Any, arrays: Arrays, n: int) -> list[datetime]:
    clocks, folds, codes = (_array(part, arrays, "iu").tolist() for part in body[:3])
    zones = [_zone_of(said) for said in body[3]]
    if codes and not 0 <= min(codes) <= max(codes) < len(zones):
        raise ValueError("a column of times in zones that it does not have")
    return [
        (EPOCH + clock * MICROSECOND).replace(tzinfo=zones[code], fold=fold)
        for clock, fold, code in zip(clocks, folds, codes, strict=True)
    ]


def _zone_of(said: Any) -> tzinfo | None:
    if said is None:
        return None
    return ZoneInfo(said) if type(said) is str else timezone(int(said) * MICROSECOND)


def _write_spans(values: list[timedelta], put: Storing) -> Any:
    parts = [(value.days, value.seconds, value.microseconds) for value in values]
    return [put.array([part[k] for part in parts], np.int64) for k in range(3)]


def _read_spans(body: Any, arrays: Arrays, n: int) -> list[timedelta]:
    parts = [_array(part, arrays, "i").tolist() for part in body]
    return [timedelta(*part) for part in zip(*parts, strict=True)]


def _write_dates(values: list[date], put: Storing) -> Any:
    return put.array([value.toordinal() for value in values], np.int64)


def _read_dates(body: Any, arrays: Arrays, n: int) -> list[date]:
    return [date.fromordinal(day) for day in _array(body, arrays, "i").tolist()]


def _int_to(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _decimal(stored: bytes) -> Decimal:
    try:
        return Decimal(stored.decode())
    except InvalidOperation as error:  # it is not a ValueError
        raise ValueError(f"{stored!r} is not a number") from error


FORMS: Mapping[str, IdForm] = {
    "None": IdForm(_nothing, _nones),
    "bool": _numbers(np.bool_),
    "int": _numbers(np.int64),
    "large int": _as_bytes(_int_to, lambda stored: int.from_bytes(stored, "little", signed=True)),
    "float": _numbers(np.float64),
    "bytes": IdForm(_write_bytes, _read_bytes),
    # surrogatepass: names of files may have lone surrogates of UTF-16
    "str": _as_bytes(
        lambda word: word.encode("utf-8", "surrogatepass"),
        lambda stored: stored.decode("utf-8", "surrogatepass"),
    ),
    "Decimal": _as_bytes(lambda number: str(number).encode(), _decimal),
    "UUID": _as_bytes(lambda value: value.bytes, lambda stored: UUID(bytes=stored)),
    "date": IdForm(_write_dates, _read_dates),
    "datetime": IdForm(_write_times, _read_times),
    "timedelta": IdForm(_write_spans, _read_spans),
    "tuple": _of_parts(tuple),
    "frozenset": _of_parts(frozenset),
}
TYPES = (bool, float, bytes, str, Decimal, UUID, date, datetime, timedelta, tuple, frozenset)
KINDS: Mapping[type, str] = {type(None): "None", **{kind: kind.__name__ for kind in TYPES}}
