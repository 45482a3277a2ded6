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

    - name: a noun phrase in lowercase with underscores. `ONNX_COMPAT_PASSES` and reports use it.
    - summary: "before => after", and the condition under which the rewrite holds.
    - example: a function that returns an onnx.ModelProto on which the pass acts.
    - after, before: the names of the passes that must run before this pass, and of those that must run after it.
    """
    return lambda apply: ModelPass(name, summary, apply, example, after, before)
