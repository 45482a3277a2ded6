"""What a shim can do of a model, node by node, without running anything."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set

from onnx_compat import select
from onnx_compat.dtypes import float32
from onnx_compat.emission import attempt
from onnx_compat.errors import NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.fallback import fallback_domains
from onnx_compat.feeds import Form
from onnx_compat.fixing import Shapes, fixed
from onnx_compat.interpreter import Interpreter
from onnx_compat.model import Graph, MapType, Model, Node, SequenceType, TensorType, load
from onnx_compat.ops import OPERATORS
from onnx_compat.plan import Fixed, recorded
from onnx_compat.shim import Program, Shim, natives
from onnx_compat.typesonly import TypesOnly

__all__ = [
    "AGAIN",
    "UNSEEN",
    "NodeSupport",
    "Survey",
    "declared_forms",
    "falls_back",
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
    forms: Dict[str, Form],
    fixed: Fixed,
    use_natives: bool = True,
    watch: Optional[Callable[[str, Any], None]] = None,
) -> Survey:
    """Record what can be recorded, and try to emit it in a scratch place. `watch` is told every value on the way."""
    with shim.scratch() as emitter:
        interpreter = Interpreter(natives(emitter) if use_natives else None, tolerant=True, watch=watch)
        made = recorded(model, emitter, forms, fixed, interpreter)
        failed = dict(interpreter.failed)
        # Over values, to emit would be to execute.
        failed.update(attempt(made.program.region, TypesOnly(emitter) if emitter.concrete else emitter))
    return Survey(failed, interpreter.unseen, interpreter.done)


def declared_forms(graph: Graph) -> Dict[str, Form]:
    """The forms of the inputs as the model declares them; sequences empty. A tensor of unknown rank has none."""
    forms: Dict[str, Form] = {}
    for one in graph.required:
        if isinstance(one.type, SequenceType):
            forms[one.name] = Form("sequence")
        elif isinstance(one.type, MapType):
            element = getattr(one.type.value, "dtype", None) or float32
            forms[one.name] = Form("map", items=(Form("tensor", one.type.key, 1), Form("tensor", element, 1)))
        elif not isinstance(one.type, TensorType) or one.type.dtype is None:
            forms[one.name] = Form("nothing")
        elif one.type.rank is not None:
            forms[one.name] = Form("tensor", one.type.dtype, one.type.rank)
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
    loaded = fixed(load(model), shapes, values)
    writer = select.find(select.decide(shim).name)
    found = survey(loaded, writer.portable() if portable else writer, declared_forms(loaded.graph), Fixed())
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
    with select.find(select.decide(shim).name).scratch() as emitter:
        return recorded(loaded, emitter, forms, Fixed(), Interpreter(natives(emitter)), whole=True).program


def falls_back(node: Node) -> bool:
    """Whether the fallback may know the operator of a node."""
    return (node.domain, node.operator) in OPERATORS or node.domain in fallback_domains()


def _of(node: Node, found: Survey) -> NodeSupport:
    error = found.failed.get(node.name)
    if isinstance(error, NeedsKnownError):
        status, reason = "composed", AGAIN + error.reason
    elif error is not None:
        status = "fallback" if falls_back(node) else "unsupported"
        reason = error.reason
    elif node.name in found.unseen:
        status, reason = "composed", UNSEEN
    else:
        status = found.done.get(node.name, "composed")
        reason = "the shim's own kernel" if status == "native" else "its meaning over the shim's primitives"
    return NodeSupport(node.name, node.operator, node.opset, status, reason)
