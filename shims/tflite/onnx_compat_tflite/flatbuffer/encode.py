"""Encode dictionaries to flatbuffer bytes, by the tables of `schema`.

A table is written before the tables and vectors that it refers to, since the offsets of a flatbuffer point forward. So the
weights can come last. A `Later` value leaves zero bytes, a `Hole`: the caller stores the value when it is known.
"""

import struct
from operator import attrgetter
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np

from onnx_compat.shim import ConversionError
from onnx_compat_tflite.flatbuffer.names import ENUMS
from onnx_compat_tflite.flatbuffer.schema import SCALARS, TABLES, UNION_MEMBERS, Field, Table

__all__ = ["Hole", "Later", "encode"]


class Later(NamedTuple):
    """A placeholder for a value that the caller stores after encoding: the offset of a constant, or a 64-bit number.

    The caller chooses `key`. The hole that the placeholder leaves has the same key.
    """

    key: int


class Hole(NamedTuple):
    """`width` bytes at byte `position` of the flatbuffer, which the caller must fill with the value of `Later(key)`.

    If `width` is 4, the value is an offset relative to `position`. If it is 8, the value is a number.
    """

    position: int
    width: int
    key: int


def encode(table: str, values: Mapping[str, Any], identifier: bytes) -> Tuple[bytearray, List[Hole]]:
    """Return (bytes of a flatbuffer with the root table `table`, the holes that its `Later` values leave).

    `table`: the name of a table type. `identifier`: the 4 bytes that name the file type, such as b"TFL3". `values`: a
    dict {field name: value}. A field is left out if its value is missing, None, or a scalar equal to the field's
    default. The value of a field is

    - a number, a boolean or an enumeration's name for a scalar
    - a dict for a table, a list of dicts for a vector of tables
    - (table name, dict) for a union
    - str or bytes for a string; bytes, a list or an array for a vector
    - a `Later` for any of these except a union

    Raises ConversionError in these cases:

    - a name is no field of the table
    - a name is unknown in its enumeration
    - a scalar field cannot hold its value
    """
    encoder = _Encoder()
    encoder.out += b"\0\0\0\0" + identifier
    encoder.point(0, encoder.table(TABLES[table], values))
    return encoder.out, encoder.holes


_STRUCTS = {code: struct.Struct("<" + code) for code in SCALARS.values()}
"""Format character of a scalar type -> its packer, whose `size` is its width in bytes."""


def _base(kind: str) -> str:
    """Return the scalar type that stores values of a type.

    Examples: "int8" for the enumeration "Padding", "int32" for the scalar type "int32".
    """
    return ENUMS[kind].base if kind in ENUMS else kind


Value = Any  # A field's value: a scalar, bytes, a sequence, a mapping of a table, or (member, mapping) of a union.


class _Slot(NamedTuple):
    """A value to store in a table: at the index `slot` of the vtable, with the `struct` format `code`.

    `field`: its field in the schema. `value` is one of these:

    - the number of a scalar, or the number of a union's member (code "B")
    - the content of any other field: the table stores the offset of the content (code "I")
    - a `Later`: the table stores zero bytes
    """

    slot: int
    code: str
    value: Value
    field: Field


class _Encoder:
    def __init__(self) -> None:
        self.out = bytearray()
        self.holes: List[Hole] = []
        self._vtables: Dict[bytes, int] = {}

    def point(self, position: int, target: int) -> None:
        """Store at byte `position` the offset from there to byte `target`."""
        struct.pack_into("<I", self.out, position, target - position)

    def pad(self, alignment: int, ahead: int = 0) -> int:
        """Append zero bytes to the output until its length plus `ahead` is a multiple of `alignment`.

        Returns the length of the output.
        """
        self.out += bytes(-(len(self.out) + ahead) % alignment)
        return len(self.out)

    def table(self, table: Table, values: Mapping[str, Value]) -> int:
        """Append a table with these field values, then the tables and vectors that it refers to.

        Returns the byte position of the table. `table` is the type of the table; `values` is a dict {field name:
        value}. The position of each `Later` value is added to `holes`. Raises ConversionError if a name is unknown, or
        a field cannot hold its value.
        """
        unknown = values.keys() - table.by_name.keys()
        if unknown:
            raise ConversionError("%s has no field '%s'" % (table.name, "', '".join(sorted(unknown))))
        slots: List[_Slot] = []
        for name, value in values.items():
            if value is not None:
                slots += self._slots(table.by_name[name], value)
        slots.sort(key=lambda slot: (-_STRUCTS[slot.code].size, slot.slot))

        offsets, size = {}, 4
        for slot in slots:
            offsets[slot.slot] = size
            size += _STRUCTS[slot.code].size
        vtable = self._vtable(offsets, size)
        is_wide = bool(slots) and _STRUCTS[slots[0].code].size == 8
        start = self.pad(8 if is_wide else 4, ahead=4)
        self.out += struct.pack("<i", start - vtable)
        self.out += bytes(size - 4)
        references: List[_Slot] = []
        for slot in slots:
            position = start + offsets[slot.slot]
            if isinstance(slot.value, Later):
                self.holes.append(Hole(position, _STRUCTS[slot.code].size, slot.value.key))
            elif slot.field.kind == "scalar" or slot.code == "B":
                self._scalar(position, slot)
            else:
                references.append(slot)
        for slot in sorted(references, key=attrgetter("slot")):
            self.point(start + offsets[slot.slot], self._reference(slot.field, slot.value))
        return start

    def _scalar(self, position: int, slot: _Slot) -> None:
        try:
            _STRUCTS[slot.code].pack_into(self.out, position, slot.value)
        except struct.error as error:
            raise ConversionError("%s cannot hold %r: %s" % (slot.field.name, slot.value, error)) from error

    def _slots(self, field: Field, value: Value) -> List[_Slot]:
        """Return the slots that store a field with this value.

        The list is empty for a scalar equal to its default, and has two slots for a union. Otherwise it has one slot.
        """
        if field.kind == "union":
            member, content = value
            number = UNION_MEMBERS[field.type].index(member) + 1
            return [_Slot(field.slot, "B", number, field), _Slot(field.slot + 1, "I", (member, content), field)]
        if field.kind != "scalar":
            return [_Slot(field.slot, "I", value, field)]
        if not isinstance(value, Later):
            if field.type in ENUMS:
                value = ENUMS[field.type].number(value)
                default = ENUMS[field.type].number(field.default)
            else:
                default = field.default
            if value == default:
                return []
        return [_Slot(field.slot, SCALARS[_base(field.type)], value, field)]

    def _vtable(self, offsets: Dict[int, int], size: int) -> int:
        """Return the byte position of a vtable with these offsets. If there is no equal vtable, append it.

        `offsets`: a dict slot -> offset of the field in its table. `size`: the number of bytes of the table.
        """
        count = max(offsets) + 1 if offsets else 0
        content = struct.pack(
            "<%dH" % (count + 2), 4 + 2 * count, size, *[offsets.get(slot, 0) for slot in range(count)]
        )
        if content not in self._vtables:
            self._vtables[content] = self.pad(2)
            self.out += content
        return self._vtables[content]

    def _reference(self, field: Field, value: Value) -> int:
        """Append the table, union member, string or vector of a field.

        Returns the byte position of the appended content, which is the target of the field's offset.
        """
        if field.kind == "table":
            return self.table(TABLES[field.type], value)
        if field.kind == "union":
            return self.table(TABLES[value[0]], value[1])
        if field.kind == "tables":
            start = self._vector(bytes(4 * len(value)), len(value), 4)
            for index, item in enumerate(value):
                self.point(start + 4 + 4 * index, self.table(TABLES[field.type], item))
            return start
        if field.kind == "string":
            content = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
            return self._vector(content + b"\0", len(content), 1)
        if field.type in ENUMS:
            value = [ENUMS[field.type].number(item) for item in value]
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = np.frombuffer(value, np.uint8)
        code = SCALARS[_base(field.type)]
        array = np.asarray(value, dtype="<" + code).reshape(-1)
        return self._vector(array.tobytes(), array.size, array.itemsize)

    def _vector(self, content: bytes, count: int, alignment: int) -> int:
        start = self.pad(max(4, alignment), ahead=4)
        self.out += struct.pack("<I", count) + content
        return start
