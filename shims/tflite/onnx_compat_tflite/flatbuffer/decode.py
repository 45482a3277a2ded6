"""Decode flatbuffer bytes of any origin to dictionaries, by the tables of `schema`. A defect raises InvalidModelError.

Each position is checked before the bytes there are read. Tables of a flatbuffer may be shared, so a small malicious file
could expand without limit. So the decoded size is limited to a multiple of the file size.
"""

import struct
from typing import Any, Dict, Optional, Tuple

import numpy as np

from onnx_compat.shim import InvalidModelError
from onnx_compat_tflite.flatbuffer.names import ENUMS
from onnx_compat_tflite.flatbuffer.schema import SCALARS, TABLES, UNION_MEMBERS, Field, Table

__all__ = ["AGAIN", "decode"]

AGAIN = "it is damaged or cut short: fetch or write it again"
_STRUCTS = {name: struct.Struct("<" + code) for name, code in SCALARS.items()}


def decode(table: str, data: memoryview, identifier: bytes) -> Dict[str, Any]:
    """Decode a flatbuffer whose root table is `table` (a name such as "Model"), and return a dict {field name: value}.

    The dict has a key for every field of the table's schema. A value has one of these forms:

    - scalar: a number or a bool
    - enumeration: the name of the value, or its number if the name is unknown
    - string: a str
    - vector of uint8: a numpy array that is a view of `data`
    - any other vector: a list
    - table: a dict {field name: value}
    - union: (table name, dict of the table), or None if the table's type is unknown
    - absent field: the default of the schema, or None

    Raises InvalidModelError if bytes 4 to 7 are not `identifier`, or if the data is malformed. Raises InvalidModelError
    also if the decoded size would far exceed the size of `data`.
    """
    if len(data) < 8 or bytes(data[4:8]) != identifier:
        raise InvalidModelError(
            "this is not a TFLite model: the file identifier '%s' is missing" % identifier.decode(),
            hint="give a .tflite file; an incomplete copy looks like this too",
        )
    decoder = _Decoder(data)
    return decoder.table(TABLES[table], decoder.follow(0))


class _Decoder:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._budget = 16 * len(data) + (1 << 16)

    def table(self, table: Table, start: int) -> Dict[str, Any]:
        """Return the table of the type `table` that begins at byte `start`, as a dict {field name: value}.

        The dict has a key for every field of the type. `decode` lists the forms of the values. Raises InvalidModelError
        for malformed data.
        """
        self._spend(8 + 8 * len(table.fields))
        offsets, size = self._vtable(start)
        result: Dict[str, Any] = {}
        for field in table.fields:
            if field.kind == "union":
                result[field.name] = self._union(field, start, offsets, size)
                continue
            width = _STRUCTS[_base(field.type)].size if field.kind == "scalar" else 4
            position = self._field_position(field.slot, width, start, offsets, size)
            result[field.name] = field.default if position == 0 else self._value(field, position)
        return result

    def follow(self, position: int) -> int:
        """Return the byte position that the offset at byte `position` points to.

        The returned position may be outside of the file. Raises InvalidModelError if `position` is outside of the file.
        """
        return position + int(self._read("uint32", position))

    def _spend(self, amount: int) -> None:
        self._budget -= amount
        if self._budget < 0:
            raise InvalidModelError("the file unfolds to far more than its size: it is damaged or hostile")

    def _read(self, kind: str, position: int) -> Any:
        form = _STRUCTS[kind]
        if position < 0 or position + form.size > len(self._data):
            raise InvalidModelError(
                "the file points outside itself (byte %d of %d)" % (position, len(self._data)),
                hint=AGAIN,
            )
        return form.unpack_from(self._data, position)[0]

    def _vtable(self, start: int) -> Tuple[Tuple[int, ...], int]:
        """Return (offset of each field from the table's start, by slot; size of the table in bytes).

        The offset 0 stands for an absent field. Raises InvalidModelError for a vtable or table outside of the file.
        """
        vtable = start - int(self._read("int32", start))
        length, size = self._read("uint16", vtable), self._read("uint16", vtable + 2)
        if length < 4 or length % 2 or size < 4 or vtable + length > len(self._data) or start + size > len(self._data):
            raise InvalidModelError("the table at byte %d has no valid layout: the file is damaged" % start, hint=AGAIN)
        return struct.unpack_from("<%dH" % (length // 2 - 2), self._data, vtable + 4), size

    def _field_position(self, slot: int, width: int, start: int, offsets: Tuple[int, ...], size: int) -> int:
        """Return the byte position of the field in `slot`; 0 if the table lacks the field.

        `width` is the size of the field in bytes. `start` is the byte position of the table. `offsets` and `size` are
        the results of `_vtable`. Raises InvalidModelError for a field outside of the table.
        """
        offset = offsets[slot] if slot < len(offsets) else 0
        if offset and not 4 <= offset <= size - width:
            reason = "a field of the table at byte %d lies outside it: the file is damaged" % start
            raise InvalidModelError(reason, hint=AGAIN)
        return start + offset if offset else 0

    def _union(
        self, field: Field, start: int, offsets: Tuple[int, ...], size: int
    ) -> Optional[Tuple[str, Dict[str, Any]]]:
        """Return (table name, dict {field name: value}) of the table in a union field.

        `start` is the byte position of the table that has the field. `offsets` and `size` are the results of `_vtable`
        for this table. Returns None if the field is absent, or if the type of the member is unknown. Raises
        InvalidModelError for malformed data.
        """
        kind = self._field_position(field.slot, 1, start, offsets, size)
        position = self._field_position(field.slot + 1, 4, start, offsets, size)
        members = UNION_MEMBERS[field.type]
        number = self._read("uint8", kind) if kind else 0
        if not position or not 1 <= number <= len(members):
            return None
        return members[number - 1], self.table(TABLES[members[number - 1]], self.follow(position))

    def _value(self, field: Field, position: int) -> Any:
        if field.kind == "scalar":
            value = self._read(_base(field.type), position)
            return ENUMS[field.type].name(value) if field.type in ENUMS else value
        target = self.follow(position)
        if field.kind == "table":
            return self.table(TABLES[field.type], target)
        if field.kind == "tables":
            offsets = self._vector(target, "uint32")
            return [
                self.table(TABLES[field.type], target + 4 + 4 * index + offset)
                for index, offset in enumerate(offsets.tolist())
            ]
        if field.kind == "string":
            return self._vector(target, "uint8").tobytes().decode("utf-8", "surrogateescape")
        array = self._vector(target, _base(field.type))
        if field.type == "uint8":
            return array
        return [ENUMS[field.type].name(item) for item in array.tolist()] if field.type in ENUMS else array.tolist()

    def _vector(self, start: int, kind: str) -> "np.ndarray[Any, np.dtype[Any]]":
        count, width = int(self._read("uint32", start)), _STRUCTS[kind].size
        if start + 4 + count * width > len(self._data):
            raise InvalidModelError("a vector of %d elements at byte %d is cut short" % (count, start))
        self._spend(8 if kind == "uint8" else 8 + count * width)
        return np.frombuffer(self._data, dtype="<" + SCALARS[kind], count=count, offset=start + 4)


def _base(kind: str) -> str:
    """Return the scalar type that stores values of a type.

    Examples: "int8" for the enumeration "Padding", "int32" for the scalar type "int32".
    """
    return ENUMS[kind].base if kind in ENUMS else kind
