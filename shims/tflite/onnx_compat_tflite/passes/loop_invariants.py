"""WHILE(a, b), where b is read neither behind the loop nor for a value that is  =>  WHILE(a)

A loop brings in a tensor for its size, and the size is then known in another way. The tensor remains a loop-carried
value that no operator reads. Each round would copy it twice: the whole sequence that a recurrent network reads, for
example.
"""

from typing import Any, List, Sequence, Set

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["loop_invariants"]


def _example() -> fb.ModelSpec:
    test, body, main = (ExampleGraph((), (4,), name=name) for name in ("test", "body", "main"))
    test.finish(test.op("LESS", [test.inputs[0], test.constant(3)], (), "bool"))
    body.finish(body.op("ADD", [body.inputs[0], body.constant(1)], ()), body.inputs[1])
    count, unread = main.op("ABS", [main.inputs[0]], ()), main.op("ABS", [main.inputs[1]], (4,))
    results = [main.spec.add(fb.TensorSpec("result%d" % k, "float32", shape)) for k, shape in enumerate([(), (4,)])]
    subgraphs = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    main.spec.operators.append(fb.OperatorSpec("WHILE", [count, unread], results, subgraphs))
    return main.model(results[0], bodies=[test, body])


@graph_pass("loop_invariants", "WHILE(a, b) => WHILE(a), where b is never read", _example)
def loop_invariants(graph: GraphRewriter, context: Context) -> int:
    """Drop loop-carried values that nothing reads. Inner loops come first, since an outer loop may only feed them."""
    dropped = 0
    for loop in graph.operators:
        if loop.builtin == "WHILE":
            test, body = (context.subgraph(loop.options[name + "_subgraph_index"]) for name in ("cond", "body"))
            read = _read_values(graph, loop, test, body)
            if len(read) < len(loop.outputs):
                dropped += len(loop.outputs) - len(read)
                graph.set_inputs(loop, [loop.inputs[position] for position in read])
                graph.set_outputs(loop, [loop.outputs[position] for position in read])
                test.select_ends(inputs=read)
                body.select_ends(inputs=read, outputs=read)
                for part in (test, body):
                    part.erase_dead_code()  # a dead operator may read a dropped value
    return dropped


def _read_values(graph: GraphRewriter, loop: fb.OperatorSpec, test: GraphRewriter, body: GraphRewriter) -> List[int]:
    """Return the positions of the values that are read after the loop, by its test, or to compute a kept value."""
    kept = {position for position, index in enumerate(loop.outputs) if graph.readers(index) or graph.is_output(index)}
    kept |= _input_positions(test, test.outputs)
    while True:
        more = _input_positions(body, [body.outputs[position] for position in sorted(kept)]) - kept
        if not more:
            return sorted(kept)
        kept |= more


def _input_positions(part: GraphRewriter, outputs: Sequence[int]) -> Set[int]:
    """Return the positions of the inputs that these tensors depend on."""
    needed: Set[Any] = set(outputs)
    for op in part.operators[::-1]:
        if needed.intersection(op.outputs):
            needed.update(op.inputs)
    return {position for position, index in enumerate(part.inputs) if index in needed}
