"""The contract of a simplification: a pass over a draft of an ONNX graph that keeps the results of the model."""

from typing import Any, Callable, Sequence

from onnx_compat.passes.contract import Pass
from onnx_compat.simplify.graph_draft import GraphDraft

__all__ = ["ModelPass", "model_pass"]


class ModelPass(Pass):
    """A pass over a model. `apply(draft)` edits a `GraphDraft`, and returns the number of rewrites.

    `example()` returns an onnx.ModelProto on which the pass acts.
    """

    kind = "model"
    apply: "Callable[[GraphDraft], int]"
    example: "Callable[[], Any]"


def model_pass(
    name: str,
    summary: str,
    example: "Callable[[], Any]",
    after: Sequence[str] = (),
    before: Sequence[str] = (),
) -> "Callable[[Callable[[GraphDraft], int]], ModelPass]":
    """Return a decorator that makes a `ModelPass` of a function: draft -> number of rewrites.

    The arguments are those of `Pass`.
    """
    return lambda apply: ModelPass(name, summary, apply, example, after, before)
