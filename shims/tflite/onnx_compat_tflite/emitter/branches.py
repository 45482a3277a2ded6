"""Branches as IF over two subgraphs."""

from typing import Sequence, Tuple

from onnx_compat_tflite.emitter import subgraph_inputs
from onnx_compat_tflite.emitter.builder import Bodies, Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["cond"]


@primitive
def cond(builder: Builder, pred: Handle, *, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
    """Emit IF, and return its results: those of the first body if `pred` is true, else those of the second body.

    `pred` has a single element. `captures` are the arguments of each body.
    """
    pred = subgraph_inputs.to_scalar_bool(builder, pred)
    specs = [(subgraph_inputs.stored_type(ref), tuple(ref.spec.shape)) for ref in builder.node.outputs]
    branches = []
    for name, body in zip(("then", "else"), bodies):
        with builder.subgraph(name) as (number, graph):
            branches.append((number, graph, body(*subgraph_inputs.inner_handles(graph, captures))))
    constants = [result for _, _, results in branches for result in results if _is_known_result(result)]
    for _, graph, results in branches:
        inputs = {id(constant): subgraph_inputs.add_inner_input(graph, constant) for constant in constants}
        graph.finish([inputs.get(id(result), result) for result in results], [None] * len(specs))
    options = {"then_subgraph_index": branches[0][0], "else_subgraph_index": branches[1][0]}
    return tuple(builder.add_ops("IF", [pred, *subgraph_inputs.non_constants(captures), *constants], specs, **options))


def _is_known_result(handle: Handle) -> bool:
    """Whether this result of a branch is a constant that must become an input of each subgraph.

    A subgraph must not copy a constant to its output, because newer runtimes copy it before the first run, into memory
    that IF reuses. The next resize then returns the values of the other branch, or ends the process.

    Returns False for strings, which are not copied before the first run. Returns False for an empty constant, which
    cannot be an input.
    """
    return handle.is_constant and handle.dtype != "string" and handle.array.size > 0
