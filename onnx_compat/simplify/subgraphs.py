"""Knowledge of the values in a subgraph: a trace of the subgraph as a model of its own."""

from typing import Any, Dict, List

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dims import is_static
from onnx_compat.model import load
from onnx_compat.model.write import tensor_proto
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.knowledge import Knowledge, trace_knowledge
from onnx_compat.simplify.node import free_names

__all__ = ["subgraph_knowledge"]

#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any


def subgraph_knowledge(graph: Proto, outer: GraphDraft) -> Knowledge:
    """Return what is known of the values in a subgraph. Nothing is known if the subgraph cannot be traced.

    The inputs of the subgraph are not known, because runtimes do not check their declared types. Of an outer value that
    it reads, the type is known, and of an initializer the elements.
    """
    import onnx

    model = outer.model
    traced = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    traced.graph.CopyFrom(graph)
    for port in traced.graph.input:
        port.ClearField("type")
    sizes: Dict[Any, str] = {}
    for name in free_names(graph):
        spec, array = outer.spec(name), outer.constant(name)
        if spec is None:
            traced.graph.input.add(name=name)
        elif array is not None:
            traced.graph.initializer.append(tensor_proto(array, spec.dtype, name))
        else:
            # Equal symbolic sizes get one name, so that they are equal in the trace of the subgraph too.
            shape: List[Any] = [
                int(size)
                if is_static(size)
                else sizes.setdefault(frozenset(size.terms.items()), "size_%d" % len(sizes))
                for size in spec.shape
            ]
            traced.graph.input.append(onnx.helper.make_tensor_value_info(name, spec.dtype.onnx, shape))
    try:
        return trace_knowledge(load(traced), set())
    except OnnxCompatError:
        return Knowledge()
