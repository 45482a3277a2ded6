"""What a shim can do of a model, node by node, without running anything."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set

from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.discovery import selection
from onnx_compat.errors import NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.fallback import fallback_domains
from onnx_compat.execution.feeds import InputForm
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.type_emitter import TypeEmitter
from onnx_compat.ir.dtypes import float32
from onnx_compat.model import Graph, GraphNode, MapType, Model, SequenceType, TensorType, load
from onnx_compat.ops import OPERATORS
from onnx_compat.shim.emission import emission_errors
from onnx_compat.shim.interface import Program, Shim, declared_natives
from onnx_compat.tracing.interpreter import Interpreter

__all__ = [
    "AGAIN",
    "UNSEEN",
    "NodeSupport",
    "Survey",
    "declared_forms",
    "may_fall_back",
    "program_of",
    "support",
    "survey",
]

#: The reason of a node of which nothing could be said.
UNSEEN = "not looked at: the types that it gets are only known when the model runs"
#: How the reason of a node begins that is prepared for the values of the moment: a file has no such node.
AGAIN = "prepared again for each value that it needs: "


class NodeSupport(NamedTuple):
    """How a shim does a node of a model.

    Attributes:
        node: The name of the node.
        operator: The name of its operator.
        opset: The version of the operator set.
        status: "native", "composed", "fallback" or "unsupported".
        reason: Why it is not done by the shim, or how it is done.

    Examples:
        >>> onnx_compat.support("digits.onnx", shim="reference")[0].reason
        "its meaning over the shim's primitives"
    """

    node: str
    operator: str
    opset: int
    status: str
    reason: str


class Survey(NamedTuple):
    """`failed`: the nodes that the shim cannot do. `unseen`: nodes that could not be looked at, because the types that
    they get are only known when a failed one has run. `done`: how each of the others is done.
    """

    failed: Dict[str, OnnxCompatError]
    unseen: Set[str]
    done: Dict[str, str]


def survey(
    model: Model,
    shim: Shim,
    forms: Dict[str, InputForm],
    fixed: Specialisation,
    use_natives: bool = True,
    watch: Optional[Callable[[str, Any], None]] = None,
) -> Survey:
    """Record what can be recorded, and try to emit it in a scratch place. `watch` is told every value on the way."""
    with shim.scratch() as emitter:
        interpreter = Interpreter(declared_natives(emitter) if use_natives else None, tolerant=True, watch=watch)
        made = trace_model(model, emitter, forms, fixed, interpreter)
        failed = dict(interpreter.failed)
        # Over values, to emit would be to execute.
        failed.update(emission_errors(made.program.region, TypeEmitter(emitter) if emitter.concrete else emitter))
    return Survey(failed, interpreter.unseen, interpreter.done)


def declared_forms(graph: Graph) -> Dict[str, InputForm]:
    """The forms of the inputs as the model declares them; sequences empty. A tensor of unknown rank has none."""
    forms: Dict[str, InputForm] = {}
    for one in graph.required:
        if isinstance(one.type, SequenceType):
            forms[one.name] = InputForm("sequence")
        elif isinstance(one.type, MapType):
            element = getattr(one.type.value, "dtype", None) or float32
            forms[one.name] = InputForm(
                "map", items=(InputForm("tensor", one.type.key, 1), InputForm("tensor", element, 1))
            )
        elif not isinstance(one.type, TensorType) or one.type.dtype is None:
            forms[one.name] = InputForm("nothing")
        elif one.type.rank is not None:
            forms[one.name] = InputForm("tensor", one.type.dtype, one.type.rank)
    return forms


def support(
    model: Any,
    shim: Optional[str] = None,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
    portable: bool = False,
) -> List[NodeSupport]:
    """List how a shim does each node of a model. Nothing is run.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        shim: The name of the shim. None selects the shim that `prepare` would use.
        shapes: As for `convert`: shapes of inputs in the file.
        values: As for `convert`: values in place of inputs.
        portable: As for `convert`: a .tflite file for every runtime.

    Returns:
        An entry for each node, those of subgraphs included, in the order of the model.

    Raises:
        ShimError: The shim is not installed or does not work.
        InvalidModelError: The model is not valid.

    Examples:
        >>> nodes = onnx_compat.support("digits.onnx", shim="reference")
        >>> nodes[0].node, nodes[0].operator, nodes[0].status
        ('stem', 'Conv', 'composed')
    """
    loaded = fix_inputs(load(model), shapes, values)
    writer = selection.find(selection.decide(shim).name)
    found = survey(loaded, writer.portable() if portable else writer, declared_forms(loaded.graph), Specialisation())
    return [_of(node, found) for node in loaded.graph.walk()]


def program_of(model: Any, shim: Optional[str] = None) -> Program:
    """The program that a shim (by default the one that `prepare` would use) gets for a model, open sizes left open."""
    loaded = load(model)
    forms = declared_forms(loaded.graph)
    for one in loaded.graph.required:
        if one.name not in forms:
            raise UnsupportedError(
                "the model does not say which rank the input '%s' has" % one.name,
                hint="declare its rank in the model: a program is recorded for one rank",
            )
    with selection.find(selection.decide(shim).name).scratch() as emitter:
        return trace_model(
            loaded, emitter, forms, Specialisation(), Interpreter(declared_natives(emitter)), whole=True
        ).program


def may_fall_back(node: GraphNode) -> bool:
    """Whether the fallback may know the operator of a node."""
    return (node.domain, node.operator) in OPERATORS or node.domain in fallback_domains()


def _of(node: GraphNode, found: Survey) -> NodeSupport:
    error = found.failed.get(node.name)
    if isinstance(error, NeedsKnownError):
        status, reason = "composed", AGAIN + error.reason
    elif error is not None:
        status = "fallback" if may_fall_back(node) else "unsupported"
        reason = error.reason
    elif node.name in found.unseen:
        status, reason = "composed", UNSEEN
    else:
        status = found.done.get(node.name, "composed")
        reason = "the shim's own kernel" if status == "native" else "its meaning over the shim's primitives"
    return NodeSupport(node.name, node.operator, node.opset, status, reason)
