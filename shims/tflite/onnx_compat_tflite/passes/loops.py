"""What a loop hands from round to round, and nobody reads: what was brought in for a size that is known otherwise. Each round
would copy it twice, such as the sound that a recurrent network hears.
"""

from typing import Any, List, Sequence, Set

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["drop_states"]


def drop_states(model: fb.ModelSpec) -> None:
    """Inner loops first: what they read no more may be all that an outer one handed on."""
    for graph in model.subgraphs[::-1]:
        for loop in graph.operators:
            if loop.builtin == "WHILE":
                test, body = (model.subgraphs[loop.options[name + "_subgraph_index"]] for name in ("cond", "body"))
                kept = _kept(graph, loop, test, body)
                loop.inputs, loop.outputs = _only(loop.inputs, kept), _only(loop.outputs, kept)
                test.inputs, body.inputs, body.outputs = (
                    _only(places, kept) for places in (test.inputs, body.inputs, body.outputs)
                )


def _kept(graph: fb.SubGraph, loop: fb.OperatorSpec, test: fb.SubGraph, body: fb.SubGraph) -> Set[int]:
    """The states that are read behind the loop or by its test, and those that these are made of in a round."""
    read = {*graph.outputs, *[index for operator in graph.operators for index in operator.inputs]}
    kept: Set[int] = {place for place, index in enumerate(loop.outputs) if index in read}
    kept |= _sources(test, test.outputs)
    while True:
        more = _sources(body, _only(body.outputs, kept)) - kept
        if not more:
            return kept
        kept |= more


def _sources(part: fb.SubGraph, outputs: Sequence[int]) -> Set[int]:
    """The inputs that these outputs come of."""
    needed: Set[Any] = set(outputs)
    for operator in part.operators[::-1]:
        if needed.intersection(operator.outputs):
            needed.update(operator.inputs)
    return {place for place, index in enumerate(part.inputs) if index in needed}


def _only(items: Sequence[Any], places: Set[int]) -> List[Any]:
    return [item for place, item in enumerate(items) if place in places]
