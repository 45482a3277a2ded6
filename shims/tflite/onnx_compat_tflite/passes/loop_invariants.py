"""WHILE(a, b)  =>  WHILE(a), where b is an unused loop-carried value

Condition: the result b has no reader and is no output, and neither the loop's condition nor another kept result depends
on b. A model passes a tensor into a loop to read its size, for example, and the size turns out to be constant. Each
iteration would copy the unused tensor twice.
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
    """Remove unused loop-carried values from each WHILE and its subgraphs; return the number of removed values.

    A value is unused if its result has no reader and is no output, and neither the condition nor another kept value
    depends on it. The condition loses the inputs of these values, and the body their inputs and outputs. Operators that
    are then dead code are erased from both.

    Inner loops must be rewritten first, as `Context.apply` does, because an outer loop may carry a value only for an
    inner loop.
    """
    dropped = 0
    for loop in graph.operators:
        if loop.builtin == "WHILE":
            test, body = (context.subgraph(loop.options[name + "_subgraph_index"]) for name in ("cond", "body"))
            read = _read_values(graph, loop, test, body)
            if len(read) < len(loop.outputs):
                dropped += len(loop.outputs) - len(read)
                graph.set_inputs(loop, [loop.inputs[position] for position in read])
                graph.set_outputs(loop, [loop.outputs[position] for position in read])
                test.select_ports(inputs=read)
                body.select_ports(inputs=read, outputs=read)
                for part in (test, body):
                    part.erase_dead_code()  # a dead operator may read a dropped value
    return dropped


def _read_values(graph: GraphRewriter, loop: fb.OperatorSpec, test: GraphRewriter, body: GraphRewriter) -> List[int]:
    """Return the positions of the loop-carried values to keep, in ascending order.

    `test` is the subgraph of the condition. A value is kept if

    - an operator after the loop reads its result, or its result is an output,
    - the condition depends on it,
    - another kept value depends on it in the body.
    """
    kept = {position for position, index in enumerate(loop.outputs) if graph.readers(index) or graph.is_output(index)}
    kept |= _input_positions(test, test.outputs)
    while True:
        more = _input_positions(body, [body.outputs[position] for position in sorted(kept)]) - kept
        if not more:
            return sorted(kept)
        kept |= more


def _input_positions(part: GraphRewriter, outputs: Sequence[int]) -> Set[int]:
    """Return the positions of the inputs of the subgraph `part` that the tensors `outputs` depend on."""
    needed: Set[Any] = set(outputs)
    for op in part.operators[::-1]:
        if needed.intersection(op.outputs):
            needed.update(op.inputs)
    return {position for position, index in enumerate(part.inputs) if index in needed}
