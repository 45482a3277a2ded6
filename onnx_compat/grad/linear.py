"""Derivatives of matrix products, convolutions and pools."""

from typing import Any, List

from onnx_compat import primitives as p
from onnx_compat.grad.rules import Application, rule, summed_to


@rule("matmul")
def _matmul(at: Application, g: Any) -> List[Any]:
    x, y = at.args[:2]
    tx, ty = at.params["transpose_x"], at.params["transpose_y"]
    dx = p.matmul(y, g, None, ty, True) if tx else p.matmul(g, y, None, False, not ty)
    dy = p.matmul(g, x, None, True, tx) if ty else p.matmul(x, g, None, not tx, False)
    bias = [summed_to(g, one.shape) for one in at.args[2:]]
    return [summed_to(dx, x.shape), summed_to(dy, y.shape), *bias]
