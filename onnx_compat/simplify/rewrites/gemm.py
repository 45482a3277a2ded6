"""Products of matrices as one Gemm.

    Add(MatMul(a, b), c)     =>  Gemm(a, b, c)
    Gemm(Transpose(a), b)    =>  Gemm(a, b) with transA; also the second operand

Conditions: `a` and `b` have rank 2 and type float16, float or double; `c` has rank 1 or 2, and broadcasts to the
product; nothing else reads the values in between.
"""

from typing import Any, Optional

from onnx_compat.ir.dims import is_equal
from onnx_compat.ir.dtypes import float16, float32, float64
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["gemm_bias", "gemm_transposes"]

_FLOATS = (float16, float32, float64)


def _example() -> Any:
    return example(("MatMul", "x w", "a"), ("Add", "a c", "y"), w=[[1.0, 2.0], [3.0, 4.0]], c=[5.0, 6.0])


@model_pass("gemm_bias", "Add(MatMul(a, b), c) => Gemm(a, b, c)", _example)
def gemm_bias(draft: GraphDraft) -> int:
    """Replace each Add(MatMul(a, b), c) of `draft` by Gemm(a, b, c). Return the number of removed nodes.

    The rewrite holds under these conditions:

    - a and b are matrices of float16, float32 or float64.
    - c has rank 1 or 2, and broadcasts to the product.
    - Only the Add reads the product.
    - The opset of the draft is 7 or later.
    """
    count = 0
    for node in list(draft.nodes):
        if node.operator != "Add" or draft.opset < 7:
            continue
        for product, addend in (node.inputs, node.inputs[::-1]):
            matmul = _matrix_product(draft, product, node)
            if matmul is not None and _is_addend(draft, addend, product):
                draft.replace_node(node, "Gemm", [*matmul.inputs, addend], name=matmul.proto.name)
                draft.remove(matmul)
                count += 1
                break
    return count


def _matrix_product(draft: GraphDraft, name: str, reader: DraftNode) -> Optional[DraftNode]:
    """Return the MatMul of two float matrices whose result only `reader` reads. None without such a node."""
    node = draft.producer(name)
    if node is None or node.operator != "MatMul" or draft.only_reader(name) is not reader:
        return None
    specs = [draft.spec(operand) for operand in node.inputs]
    return node if all(spec is not None and spec.rank == 2 and spec.dtype in _FLOATS for spec in specs) else None


def _is_addend(draft: GraphDraft, addend: str, product: str) -> bool:
    """Whether the value `addend` of rank 1 or 2 broadcasts to the shape of the value `product`.

    False also if a size is symbolic and may differ from that of the product.
    """
    spec, shape = draft.spec(addend), draft.spec(product)
    if spec is None or shape is None or not 1 <= spec.rank <= 2:
        return False
    return all(is_equal(n, 1) or is_equal(n, size) for n, size in zip(spec.shape[::-1], shape.shape[::-1]))


def _transposes_example() -> Any:
    return example(("Transpose", "x", "a"), ("Gemm", "a w c", "y"), w=[[1.0, 2.0]], c=[5.0, 6.0], shape=(1, 3))


@model_pass("gemm_transposes", "Gemm(Transpose(a), b) => Gemm(a, b) with transA; also transB", _transposes_example)
def gemm_transposes(draft: GraphDraft) -> int:
    """Replace transposed operands of each Gemm of `draft` by an attribute. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        for index, attribute in enumerate(("transA", "transB") if node.operator == "Gemm" else ()):
            transpose = draft.producer(node.input(index))
            if transpose is None or transpose.operator != "Transpose":
                continue
            if list(transpose.attribute("perm", (1, 0))) != [1, 0]:
                continue
            if draft.only_reader(node.input(index)) is node:
                inputs = node.inputs
                inputs[index] = transpose.input(0)
                draft.set_inputs(node, inputs)
                draft.set_attribute(node, attribute, 1 - int(node.attribute(attribute, 0)))
                draft.remove(transpose)
                count += 1
    return count
