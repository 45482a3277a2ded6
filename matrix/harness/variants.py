"""Variants of a case: as recorded, or with less known about its inputs. The outputs must be the same.

- recorded: as it is
- unknown-dims: each size of an input is a symbol of its own
- unknown-rank: the ranks of the inputs are unknown
- composed: without the shim's native operators
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Union

import onnx

__all__ = ["RECORDED", "VARIANTS", "Variant", "choose_variants", "loosen_shapes"]

RECORDED = "recorded"


class Variant(NamedTuple):
    """The argument of `prepare` in place of the model's path, and its options."""

    model: Callable[[str], Union[str, bytes]]
    options: Dict[str, Any] = {}


def loosen_shapes(path: str, ranks: bool) -> bytes:
    """Return the model with symbolic sizes of its inputs, or without their ranks, and without shapes of other values."""
    model = onnx.load(path)
    initializers = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in initializers:
            for k, tensor in enumerate(_tensors(value.type)):
                _open(tensor, "%s_%d" % (value.name, k), ranks)
    for value in model.graph.output:
        for tensor in _tensors(value.type):
            tensor.ClearField("shape")
    del model.graph.value_info[:]
    content: bytes = model.SerializeToString()
    return content


def _tensors(type_: onnx.TypeProto) -> Iterable[onnx.TypeProto.Tensor]:
    """Yield the tensor types in a type."""
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
    "unknown-dims": Variant(lambda path: loosen_shapes(path, ranks=False)),
    "unknown-rank": Variant(lambda path: loosen_shapes(path, ranks=True)),
    "composed": Variant(str, {"natives": False}),
}


def choose_variants(variant_names: str) -> List[str]:
    """Return the named variants, separated by comma or space; without a name, the recorded variant. Raises ValueError."""
    names = variant_names.replace(",", " ").split() or [RECORDED]
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise ValueError("There is no variant '%s'. The variants are %s." % (unknown[0], ", ".join(VARIANTS)))
    return names
