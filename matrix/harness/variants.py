"""Variants of a case: the model as it was recorded, or with less information about its inputs.

The outputs must be equal.

- recorded: the model as it is
- unknown-dims: each size of an input is a symbol of its own
- unknown-rank: the ranks of the inputs are unknown
- composed: the model as it is, without the shim's native operators
- simplified: the model after `onnx_compat.simplify`
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Union

import onnx

__all__ = ["COMPOSED", "RECORDED", "VARIANTS", "Variant", "choose_variants", "loosen_shapes"]

RECORDED, COMPOSED = "recorded", "composed"


class Variant(NamedTuple):
    """A variant: the function from a model's path to the argument of `prepare`, and the options of `prepare`."""

    model: Callable[[str], Union[str, bytes]]
    options: Dict[str, Any] = {}


def loosen_shapes(path: str, ranks: bool) -> bytes:
    """Return the serialised model in which each size of an input is a symbol of its own.

    With `ranks`, the ranks of the inputs are unknown instead. The declared shapes of outputs and intermediate values
    are removed.
    """
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


def _simplify(path: str) -> bytes:
    """Return the serialised model after `onnx_compat.simplify`. Its external data stays in the folder of the model."""
    from onnx_compat.simplify import simplify

    content: bytes = simplify(onnx.load(path), folder=os.path.dirname(path))[0].SerializeToString()
    return content


def _tensors(type_: onnx.TypeProto) -> Iterable[onnx.TypeProto.Tensor]:
    """Yield the tensor types that a type contains: the type itself, or the element types of a sequence or an optional."""
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        yield type_.tensor_type
    elif kind in ("sequence_type", "optional_type"):
        yield from _tensors(getattr(type_, kind).elem_type)


def _open(tensor: onnx.TypeProto.Tensor, name: str, ranks: bool) -> None:
    """Replace each size of a tensor type by a symbol that begins with `name`; with `ranks`, remove the shape."""
    if ranks:
        tensor.ClearField("shape")
    for axis, dim in enumerate(tensor.shape.dim if tensor.HasField("shape") else ()):
        dim.dim_param = "%s_%d" % (name, axis)


VARIANTS: Dict[str, Variant] = {
    RECORDED: Variant(str),
    "unknown-dims": Variant(lambda path: loosen_shapes(path, ranks=False)),
    "unknown-rank": Variant(lambda path: loosen_shapes(path, ranks=True)),
    COMPOSED: Variant(str, {"natives": False}),
    "simplified": Variant(_simplify),
}


def choose_variants(variant_names: str) -> List[str]:
    """Return the variants in a text that separates names by comma or space; `["recorded"]` for an empty text.

    Raise a ValueError for an unknown name.
    """
    names = variant_names.replace(",", " ").split() or [RECORDED]
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise ValueError("There is no variant '%s'. The variants are %s." % (unknown[0], ", ".join(VARIANTS)))
    return names
