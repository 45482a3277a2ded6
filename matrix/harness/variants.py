"""The ways in which a case is run: as recorded, or with less told about it than was recorded. The answers must be the same.

recorded      as it is
unknown-dims  no size of an input is told: each is a name of its own
unknown-rank  not even how many dimensions an input has
composed      the shim's own kernels for whole operators are not used
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Union

import onnx

__all__ = ["RECORDED", "VARIANTS", "Variant", "choose_variants", "loosened"]

RECORDED = "recorded"


class Variant(NamedTuple):
    """What is given to `prepare` in place of the model's path, and which options with it."""

    model: Callable[[str], Union[str, bytes]]
    options: Dict[str, Any] = {}


def loosened(path: str, ranks: bool) -> bytes:
    """The model with the sizes of its inputs, or also their ranks, left open, and nothing told of any other value."""
    model = onnx.load(path)
    given = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in given:
            for k, tensor in enumerate(_tensors(value.type)):
                _open(tensor, "%s_%d" % (value.name, k), ranks)
    for value in model.graph.output:
        for tensor in _tensors(value.type):
            tensor.ClearField("shape")
    del model.graph.value_info[:]
    content: bytes = model.SerializeToString()
    return content


def _tensors(type_: onnx.TypeProto) -> Iterable[onnx.TypeProto.Tensor]:
    """The tensor types in a type."""
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        yield type_.tensor_type
    elif kind in ("sequence_type", "optional_type"):
        yield from _tensors(getattr(type_, kind).elem_type)


def _open(tensor: onnx.TypeProto.Tensor, name: str, ranks: bool) -> None:
    if ranks:
        tensor.ClearField("shape")
    for axis, dim in enumerate(tensor.shape.dim if tensor.HasField("shape") else ()):
        dim.dim_param = "%s_%d" % (name, axis)


VARIANTS: Dict[str, Variant] = {
    RECORDED: Variant(str),
    "unknown-dims": Variant(lambda path: loosened(path, ranks=False)),
    "unknown-rank": Variant(lambda path: loosened(path, ranks=True)),
    "composed": Variant(str, {"natives": False}),
}


def choose_variants(told: str) -> List[str]:
    """Those told, by comma or space; else the recorded one."""
    names = told.replace(",", " ").split() or [RECORDED]
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise ValueError("there is no variant '%s': there are %s" % (unknown[0], ", ".join(VARIANTS)))
    return names
