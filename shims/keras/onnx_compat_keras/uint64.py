"""The nodes that compute uint64, which some tensors of Keras and torch store as the bits of int64."""

from onnx_compat.shim import Const, Node, Ref

__all__ = ["reads_uint64"]


def reads_uint64(node: Node) -> bool:
    """Whether the first argument of a recorded node is a tensor of uint64."""
    first = node.args[0] if node.args else None
    return isinstance(first, (Ref, Const)) and first.spec.dtype.name == "uint64"
