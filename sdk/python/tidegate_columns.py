"""Rows of a Tidegate batch as Python lists, and back.

A transform on raw columns (world `transform-columns-plugin`) is handed each column as bytes: values one after the other, a
bitmap of what is no null, and for text the offsets at which values begin. `unpack` makes a list of such a column, with `None`
at nulls, and `pack` makes the three byte strings of a list. Nothing here needs the component's bindings, so it is tested with
plain Python; see `test_columns.py`.

| type | Python |
|---|---|
| `bool` | `bool` |
| `int8` to `int64`, `uint8` to `uint64` | `int` |
| `float32`, `float64` | `float` |
| `string`, `binary` | `str`, `bytes` |
| `date`, `time`, `timestamp_s` to `timestamp_ns` | `int`: days or units since 1970, microseconds since midnight |

A `decimal` can be carried by the host and not be read here.
"""

import struct
from typing import Any, NamedTuple, Optional, Sequence

# The format character of `struct` for each type of fixed width.
_FIXED = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
    "date": "i",
    "time": "q",
    "timestamp_s": "q",
    "timestamp_ms": "q",
    "timestamp_us": "q",
    "timestamp_ns": "q",
}

# Offsets are signed numbers of 32 bits for the host.
_MOST_BYTES = 2**31 - 1


class Packed(NamedTuple):
    """The buffers of one column, in the order of the fields of the border's `column`."""

    data: bytes
    offsets: Optional[bytes]
    validity: Optional[bytes]


def unpack(data_type: str, column: Any, rows: int) -> list:
    """The values of a column of `rows` rows; `None` where there is a null.

    `column` is anything with `data`, `offsets` and `validity`. Raises `ValueError` if its buffers do not fit type and rows.
    """
    kind = _kind(data_type)
    if kind == "bool":
        values = _bits(column.data, rows, "data")
    elif kind in ("string", "binary"):
        values = _sliced(kind, column, rows)
    else:
        layout = struct.Struct(f"<{rows}{_FIXED[kind]}")
        if len(column.data) != layout.size:
            raise ValueError(f"{rows} rows of `{data_type}` take {layout.size} bytes, and there are {len(column.data)}")
        values = list(layout.unpack(column.data))
    if column.validity is None:
        return values
    present = _bits(column.validity, rows, "validity")
    return [value if here else None for value, here in zip(values, present)]


def pack(data_type: str, values: Sequence) -> Packed:
    """The buffers of a column with these values; `None` makes a null.

    Raises `ValueError`, naming the row, if a value is not of the type or is outside its range.
    """
    kind = _kind(data_type)
    present = [value is not None for value in values]
    validity = None if all(present) else _bitmap(present)
    if kind == "bool":
        for row, value in enumerate(values):
            if value is not None and not isinstance(value, bool):
                raise _misfit(data_type, row, value)
        return Packed(_bitmap([value is True for value in values]), None, validity)
    if kind in ("string", "binary"):
        data, offsets = _joined(kind, values)
        return Packed(data, offsets, validity)
    return Packed(_fixed(data_type, _FIXED[kind], values), None, validity)


def _kind(data_type: str) -> str:
    """A type's name without its parameters, which change nothing about the layout."""
    kind = data_type.split("(")[0]
    if kind not in _FIXED and kind not in ("bool", "string", "binary"):
        raise ValueError(f"a column of type `{data_type}` can be carried by the host, and not be read or made here")
    return kind


def _misfit(data_type: str, row: int, value: Any) -> ValueError:
    return ValueError(f"the value `{value!r}` of row {row} is no `{data_type}`, or outside its range")


def _bits(bitmap: bytes, rows: int, what: str) -> list:
    if len(bitmap) * 8 < rows:
        raise ValueError(f"{rows} rows take {(rows + 7) // 8} bytes of {what}, and there are {len(bitmap)}")
    return [bitmap[row >> 3] >> (row & 7) & 1 == 1 for row in range(rows)]


def _bitmap(bits: Sequence) -> bytes:
    bitmap = bytearray((len(bits) + 7) // 8)
    for row, bit in enumerate(bits):
        if bit:
            bitmap[row >> 3] |= 1 << (row & 7)
    return bytes(bitmap)


def _sliced(kind: str, column: Any, rows: int) -> list:
    if column.offsets is None or len(column.offsets) != 4 * (rows + 1):
        raise ValueError(f"{rows} rows of `{kind}` take {rows + 1} offsets of 4 bytes")
    offsets = struct.unpack(f"<{rows + 1}i", column.offsets)
    data = bytes(column.data)
    if any(after < before for before, after in zip((0,) + offsets, offsets + (len(data),))):
        raise ValueError(f"the offsets of a `{kind}` column go back, or beyond its {len(data)} bytes")
    slices = [data[offsets[row] : offsets[row + 1]] for row in range(rows)]
    # What stands at a null is arbitrary, and need not be text.
    return slices if kind == "binary" else [value.decode("utf-8", "replace") for value in slices]


def _joined(kind: str, values: Sequence) -> tuple:
    wanted = str if kind == "string" else (bytes, bytearray, memoryview)
    parts = []
    offsets = [0]
    for row, value in enumerate(values):
        if value is None:
            part = b""
        elif not isinstance(value, wanted):
            raise _misfit(kind, row, value)
        else:
            part = value.encode() if kind == "string" else bytes(value)
        parts.append(part)
        offsets.append(offsets[-1] + len(part))
    if offsets[-1] > _MOST_BYTES:
        raise ValueError(f"the values of a `{kind}` column take {offsets[-1]} bytes, and {_MOST_BYTES} are the most; answer in several parts")
    return b"".join(parts), struct.pack(f"<{len(offsets)}i", *offsets)


def _fixed(data_type: str, letter: str, values: Sequence) -> bytes:
    try:
        return struct.pack(f"<{len(values)}{letter}", *[0 if value is None else value for value in values])
    except (struct.error, OverflowError):
        # Which one it was is looked for only now, so that the usual case stays one call.
        for row, value in enumerate(values):
            try:
                struct.pack(f"<{letter}", 0 if value is None else value)
            except (struct.error, OverflowError):
                raise _misfit(data_type, row, value) from None
        raise
