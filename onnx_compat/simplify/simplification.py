"""Simplify a model: trace it once, and run the passes until no pass rewrites anything."""

import os
from typing import Any, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.errors import InputError
from onnx_compat.model import Model, load
from onnx_compat.model.protos import subgraphs_of, walk
from onnx_compat.passes.report import Entry, PassReport
from onnx_compat.passes.schedule import check_names, left_out, naming
from onnx_compat.simplify.fixed_shapes import declare_shapes
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.knowledge import trace_knowledge
from onnx_compat.simplify.node import free_names
from onnx_compat.simplify.rewrites import SCHEDULE
from onnx_compat.simplify.size_budget import SizeBudget, stored_bytes
from onnx_compat.simplify.subgraphs import subgraph_knowledge

__all__ = ["GROWTH", "SimplifyReport", "simplify", "simplify_loaded"]

#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any

#: The default factor by which a model may grow.
GROWTH = 1.1
#: The largest number of rounds. A round runs every pass; a round without a rewrite is the last.
_ROUNDS = 20


class SimplifyReport(NamedTuple):
    """The result of `simplify` in numbers.

    Attributes:
        nodes: The number of nodes before and after, those of subgraphs included. A call of a function is a node.
        bytes: The bytes of the model before and after, those of external data included.
        passes: The passes with the number of their rewrites, in the order in which they run.
        untraced: Node name -> why the trace does not know the results of the node.
    """

    nodes: Tuple[int, int]
    bytes: Tuple[int, int]
    passes: List[Entry]
    untraced: Mapping[str, str]

    def __str__(self) -> str:
        lines = ["%d nodes -> %d, %d bytes -> %d" % (*self.nodes, *self.bytes)]
        for entry in self.passes:
            if entry.rewrites or entry.left_out:
                count = "left out" if entry.left_out else str(entry.rewrites)
                lines.append("  %-22s %8s  %s" % (entry.name, count, entry.summary))
        lines.extend("  not traced: '%s': %s" % item for item in self.untraced.items())
        return "\n".join(lines)


@typed_errors
def simplify(
    proto: "Proto",
    shapes: Optional[Shapes] = None,
    folder: "Union[str, os.PathLike[str], None]" = None,
    growth: float = GROWTH,
) -> Tuple["Proto", SimplifyReport]:
    """Return a smaller model with the same results, and a report.

    Inputs, outputs and the nodes that stay keep their names. Metadata, functions, the declared types of values that
    stay, and external data that does not change are kept too. A node that no pass changes is identical to the byte.

    Args:
        proto: An onnx.ModelProto, which is not changed.
        shapes: Input name -> sizes: {"image": (1, 3, 224, 224)}. None leaves a size as it is. The result declares them.
        folder: The folder of the external data. Needed for a model with external data only.
        growth: The factor by which the bytes of the model may grow. A model may grow by 64 KiB in any case.

    Returns:
        The simplified onnx.ModelProto, and the `SimplifyReport`.

    Raises:
        InvalidModelError: The model is not valid.
        UnsupportedError: The model needs a newer opset, dtype or format than this library knows.
        LimitError: The model exceeds a limit (see `onnx_compat.limits`).
        InputError: `shapes` does not fit the model, `growth` is below 1, or ONNX_COMPAT_PASSES names no pass.
    """
    import onnx

    if not isinstance(proto, onnx.ModelProto):
        raise InputError(
            "simplify takes an onnx.ModelProto, not %s" % type(proto).__name__, hint="give onnx.load(path)"
        )
    if not growth >= 1:
        raise InputError("the growth is %r, which is no factor of 1 or more" % (growth,))
    return simplify_loaded(proto, fix_inputs(load(proto, folder), shapes), bool(shapes), growth)


def simplify_loaded(
    proto: "Proto", model: Model, has_new_shapes: bool = False, growth: float = GROWTH
) -> Tuple["Proto", SimplifyReport]:
    """Simplify a model that `load` has read. Return (simplified ModelProto, report). `proto` is not changed.

    - proto: the ModelProto of the model.
    - model: the loaded model, with the new shapes of inputs.
    - has_new_shapes: whether the shape of an input is new. The result then declares the new shapes.
    - growth: the factor by which the bytes of the model may grow.
    """
    import onnx

    check_names(SCHEDULE.distinct)
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    graph = result.graph
    variable, pinned = _variable_names(result), _training_names(result)
    knowledge = trace_knowledge(model, variable)
    if has_new_shapes:
        declare_shapes(graph, model.graph, knowledge)
    size = _count_bytes(result)
    budget = SizeBudget(size, growth)
    before = _count_nodes(graph)
    draft = GraphDraft(graph, result, knowledge, budget, pinned, variable, proto.ir_version < 4)
    report = PassReport()
    _run_passes(draft, report)
    draft.write()
    untraced = {name: error.reason for name, error in knowledge.failed.items()}
    return result, SimplifyReport((before, _count_nodes(graph)), (size, _count_bytes(result)), report.entries, untraced)


def _run_passes(draft: GraphDraft, report: PassReport) -> None:
    """Run the passes on a graph, then on the subgraphs of its nodes. Add the rewrites of each pass to `report`.

    If the simplified subgraphs read fewer values of the graph, the passes run on the graph once more. Below IR version
    4, subgraphs are not changed.
    """
    _run_rounds(draft, report)
    if draft.model.ir_version < 4:  # an initializer of a subgraph would be an input of the subgraph
        return
    is_less_read = False
    for node in draft.nodes:
        for graph in subgraphs_of(node.proto):
            inner = GraphDraft(graph, draft.model, subgraph_knowledge(graph, draft), draft.budget, outer=draft)
            _run_passes(inner, report)
            inner.write()
            is_less_read = draft.find_captures(node) or is_less_read
    if is_less_read:
        _run_rounds(draft, report)


def _run_rounds(draft: GraphDraft, report: PassReport) -> None:
    """Run the passes on the nodes of a graph until a round rewrites nothing, at most `_ROUNDS` times.

    Add the number of rewrites of each pass to `report`.
    """
    for _ in range(_ROUNDS):
        rewrites = 0
        for pass_ in SCHEDULE.passes:
            if pass_.name in left_out():
                report.add(pass_, 0, left_out=True)
                continue
            with naming(pass_):
                count = pass_.apply(draft)
            report.add(pass_, count)
            rewrites += count
        if not rewrites:
            break


def _variable_names(proto: Proto) -> Set[str]:
    """Return the names of initializers that a caller may replace, or that training changes.

    From IR version 4 on, an initializer with the name of an input is a default. Below, every initializer has an input,
    and onnxruntime takes each for a constant.
    """
    names = {binding.key for info in proto.training_info for binding in info.update_binding}
    names.update(binding.key for info in proto.training_info for binding in info.initialization_binding)
    if proto.ir_version >= 4:
        names.update(port.name for port in proto.graph.input)
    stored = {tensor.name for tensor in proto.graph.initializer}
    return names & (stored | {tensor.values.name for tensor in proto.graph.sparse_initializer})


def _training_names(proto: Proto) -> Set[str]:
    """Return the names of the values that the training of a model reads."""
    names: Set[str] = set()
    for info in proto.training_info:
        names.update(free_names(info.initialization))
        names.update(free_names(info.algorithm))
        for binding in [*info.initialization_binding, *info.update_binding]:
            names.update((binding.key, binding.value))
    return names


def _count_nodes(graph: Proto) -> int:
    return sum(1 for _ in walk(graph.node))


def _count_bytes(proto: Proto) -> int:
    """Return the bytes of a model, with those of external data."""
    outside: int = sum(stored_bytes(tensor) - tensor.ByteSize() for tensor in proto.graph.initializer)
    return int(proto.ByteSize()) + outside
