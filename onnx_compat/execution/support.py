"""Support: predict for each node of a model how a shim does it. Nothing is run."""

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.conversion.onnx_options import OnnxOptions, check_onnx_options
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.fallback import fallback_domains
from onnx_compat.execution.feeds import InputStructure
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.type_emitter import TypeEmitter
from onnx_compat.ir.dtypes import float32
from onnx_compat.model import Graph, GraphNode, MapType, Model, SequenceType, TensorType, load
from onnx_compat.model.loading import ModelSource
from onnx_compat.ops import has_meaning
from onnx_compat.shim.emission import emission_errors
from onnx_compat.shim.interface import Program, Shim
from onnx_compat.tracing.interpreter import Interpreter

__all__ = [
    "AGAIN",
    "UNSEEN",
    "NodeSupport",
    "PartSupport",
    "Support",
    "Survey",
    "declared_structures",
    "describe_done",
    "may_fall_back",
    "program_of",
    "support",
    "survey",
]

#: The reason of a node that could not be examined.
UNSEEN = "not looked at: the types that it gets are only known when the model runs"
#: The prefix of the reason of a node that is specialised on the values of each run. A file cannot hold that node.
AGAIN = "prepared again for each value that it needs: "


class NodeSupport(NamedTuple):
    """The way in which a shim does a node of a model.

    Attributes:
        node: The name of the node.
        operator: The name of its operator.
        opset: The version of the operator set.
        status: "native", "composed", "fallback" or "unsupported". "composed" includes nodes that could not be examined,
            and nodes that are prepared again for each value that they need. "fallback" is onnxruntime or the reference;
            `Runnable.fallback_runtimes` says which of them ran the node. In an .onnx file that keeps the nodes of the
            model: "kept", "re-spelled", "composed" or "refused", as `convert --dry-run` lists them.
        reason: Why the shim cannot do the node, or how it does the node.
        ops: The ops of the file that compute the node's results: ("CONV_2D",), ("keras.layers.Conv2D",), ("Conv",). A
            node that is fused into another has the ops of the other. Empty without a format, and for a node without
            ops.

    Examples:
        >>> onnx_compat.support("digits.onnx", shim="reference")[0].reason
        "its meaning over the shim's primitives"
    """

    node: str
    operator: str
    opset: int
    status: str
    reason: str
    ops: Tuple[str, ...] = ()


class PartSupport(NamedTuple):
    """A part of a bundle.

    Attributes:
        kind: The format of the part; "onnx" for a part in the fallback.
        nodes: The names of its nodes.
        inputs: The names of the values that it reads.
        outputs: The names of the values that it computes.
        reasons: Node name -> why the node is in the fallback; empty for any other part.
    """

    kind: str
    nodes: List[str]
    inputs: List[str]
    outputs: List[str]
    reasons: Dict[str, str]


class Support(List[NodeSupport]):
    """The nodes of a model, and what `convert` does with the model: the result of `support`.

    The nodes are the elements of the list. Without a format, all other attributes are empty.

    Attributes:
        format: The format of the file; None without a format.
        outcome: "file"; "bundle", if `convert` needs `allow_fallback`; "refused"; "" without a format.
        reason: Why the outcome is no file.
        parts: The parts of a bundle, in running order.
        ops: Op -> its number in the file, or in all files of the bundle.

    Examples:
        >>> prediction = onnx_compat.support("digits.onnx", to="tflite")
        >>> prediction.outcome, prediction[0].ops
        ('file', ('CONV_2D + RELU',))
    """

    def __init__(
        self,
        nodes: Iterable[NodeSupport],
        format: Optional[str] = None,
        outcome: str = "",
        reason: str = "",
        parts: Sequence[PartSupport] = (),
        ops: Optional[Mapping[str, int]] = None,
    ) -> None:
        super().__init__(nodes)
        self.format = format
        self.outcome = outcome
        self.reason = reason
        self.parts = list(parts)
        self.ops = dict(ops or {})


class Survey(NamedTuple):
    """The outcome of a trial trace and a trial emission of a model, by node names.

    - failed: node name -> error, for the nodes that the shim cannot run. The name "" stands for a primitive without a
      node.
    - unseen: the names of the nodes that could not be examined, because they depend on a failed node, or on a required
      input of the model whose rank is not known.
    - done: node name -> "native" or "composed", for each node that was traced, also if its emission failed.
    """

    failed: Dict[str, OnnxCompatError]
    unseen: Set[str]
    done: Dict[str, str]


def survey(
    model: Model,
    shim: Shim,
    structures: Dict[str, InputStructure],
    fixed: Specialisation,
    use_natives: bool = True,
    watch: Optional[Callable[[str, Any], None]] = None,
) -> Survey:
    """Find the nodes that a shim cannot run, by a trial: trace the model, and emit the program. Return a `Survey`.

    Nothing is executed, and nothing is kept of the emission.

    - structures, fixed: as for `trace_model`.
    - use_natives: whether the shim's methods for whole operators are tried.
    - watch: a function that is called with the name and the traced value of each input and each node output, except in
      subgraphs; or None.

    Raises InvalidModelError and LimitError of the trace, and any unexpected error of a custom operator. Any other
    OnnxCompatError of a node is put into `Survey.failed`, and so is every OnnxCompatError of the emission.
    """
    with shim.scratch() as emitter:
        interpreter = Interpreter(emitter.natives() if use_natives else None, tolerant=True, watch=watch)
        traced = trace_model(model, emitter, structures, fixed, interpreter)
        failed = dict(interpreter.failed)
        # A concrete emitter would execute each node; a TypeEmitter only checks dtypes.
        failed.update(emission_errors(traced.program.region, TypeEmitter(emitter) if emitter.concrete else emitter))
    return Survey(failed, interpreter.unseen, interpreter.done)


def declared_structures(graph: Graph) -> Dict[str, InputStructure]:
    """Return input name -> structure for the required inputs, by their declared types.

    - A sequence: an empty sequence.
    - A map: the values are float32 if their dtype is not declared.
    - A tensor of declared dtype and rank: a tensor.
    - A tensor of declared dtype and unknown rank: no entry.
    - A tensor of undeclared dtype, or an optional, sparse or undeclared type: an empty optional.
    """
    structures: Dict[str, InputStructure] = {}
    for port in graph.required:
        if isinstance(port.type, SequenceType):
            structures[port.name] = InputStructure("sequence")
        elif isinstance(port.type, MapType):
            element = getattr(port.type.value, "dtype", None) or float32
            structures[port.name] = InputStructure(
                "map", items=(InputStructure("tensor", port.type.key, 1), InputStructure("tensor", element, 1))
            )
        elif not isinstance(port.type, TensorType) or port.type.dtype is None:
            structures[port.name] = InputStructure("nothing")
        elif port.type.rank is not None:
            structures[port.name] = InputStructure("tensor", port.type.dtype, port.type.rank)
    return structures


@typed_errors
def support(
    model: ModelSource,
    shim: Optional[str] = None,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
    portable: bool = False,
    to: Optional[str] = None,
    channels_last: Sequence[str] = (),
    float64_as_float32: bool = False,
    opset: Optional[int] = None,
    ir_version: Optional[int] = None,
    inline_functions: bool = False,
    simplify: bool = False,
) -> Support:
    """List how a shim does each node of a model, in a run or in a file. Nothing is run, and no file is written.

    With `to`, the file is built as `convert` builds it, so that the result is what `convert` does.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        shim: The name of the shim. None selects the shim that `prepare` would use, or with `to` the shim that `convert`
            would use.
        shapes: As for `convert`: shapes of inputs in the file.
        values: As for `convert`: values in place of inputs.
        portable: As for `convert`: a .tflite file for every runtime.
        to: A format of `convert`: "tflite", "keras", "saved_model", "graphdef" or "onnx". None: a run of the model.
        channels_last: As for `convert`; needs `to`.
        float64_as_float32: As for `convert`.
        opset: As for `convert`: the version of ai.onnx in an .onnx file. This option and the next three need `to`.
        ir_version: As for `convert`: the version of the file format of an .onnx file.
        inline_functions: As for `convert`: whether functions of the model are inlined in an .onnx file.
        simplify: As for `convert`: whether an .onnx file is simplified. The entries are then those of its nodes.

    Returns:
        An entry for each node, those of subgraphs included, in the order of the model. With `to`, the result also has
        the outcome, the ops of the file, and the parts of a bundle. Quantisation is not predicted. For an .onnx file,
        nodes of functions have entries too, and so have tensors of a type that the file lacks.

    Raises:
        ShimError: The shim is not installed or does not work.
        InvalidModelError: The model is not valid.
        UnsupportedError: The model cannot be loaded by this version, or ONNX lacks the dtype of a value.
        InputError: `shapes` or `values` do not fit the model, or an option of a file is given without `to`.
        ConversionError: `portable` is set, and the files of the shim are for one version of the framework. Or no
            installed shim writes the format, the format lacks an option, or the opset cannot be written.

    Examples:
        >>> nodes = onnx_compat.support("digits.onnx", shim="reference")
        >>> nodes[0].node, nodes[0].operator, nodes[0].status
        ('stem', 'Conv', 'composed')
    """
    from onnx_compat.conversion.convert import ONNX
    from onnx_compat.conversion.float64 import narrow_float64

    onnx_options = OnnxOptions(opset, ir_version, inline_functions, simplify=simplify)
    if to == ONNX and shim != ONNX:
        check_onnx_options(
            False, shim=shim, portable=portable, channels_last=channels_last, float64_as_float32=float64_as_float32
        )
        from onnx_compat.retarget.prediction import predict_onnx

        return predict_onnx(model, onnx_options, shapes, values)
    loaded = fix_inputs(load(model), shapes, values)
    loaded = narrow_float64(loaded) if float64_as_float32 else loaded
    if to is not None:
        return _predict(loaded, shim, portable, to, channels_last, onnx_options)
    if onnx_options.given:
        raise InputError(
            "the option '%s' is for .onnx files" % onnx_options.given[0], hint="name the format: to='onnx'"
        )
    if channels_last:
        raise InputError("only a file has inputs and outputs with their channels last", hint="name its format: `to`")
    writer = selection.find(selection.decide(shim).name)
    outcome = survey(
        loaded, writer.portable() if portable else writer, declared_structures(loaded.graph), Specialisation()
    )
    return Support(_node_support(node, outcome) for node in loaded.graph.walk())


def _predict(
    model: Model,
    shim: Optional[str],
    portable: bool,
    to: str,
    channels_last: Sequence[str],
    onnx_options: OnnxOptions,
) -> Support:
    from onnx_compat.conversion.convert import find_writer, writer_of_opset
    from onnx_compat.conversion.port_layout import check_channels_last
    from onnx_compat.conversion.prediction import predict

    writer = writer_of_opset(onnx_options, to) or find_writer(to, shim)
    names = check_channels_last(model.graph, channels_last) if channels_last else ()
    return predict(model, writer.portable() if portable else writer, to, names)


@typed_errors
def program_of(model: ModelSource, shim: Optional[str] = None) -> Program:
    """Return the program that a shim gets for a model. Sizes that the model leaves open are symbolic.

    `shim` None: the shim that `prepare` would use. Outputs that are known while tracing are outputs of the program too.

    Raises UnsupportedError if an input has a declared dtype but no declared rank, or if a node cannot be traced. Raises
    InvalidModelError if the model is not valid, and ShimError if the shim does not work.
    """
    loaded = load(model)
    structures = declared_structures(loaded.graph)
    for port in loaded.graph.required:
        if port.name not in structures:
            raise UnsupportedError(
                "the model does not say which rank the input '%s' has" % port.name,
                hint="declare its rank in the model: a program is recorded for one rank",
            )
    with selection.find(selection.decide(shim).name).scratch() as emitter:
        return trace_model(
            loaded, emitter, structures, Specialisation(), Interpreter(emitter.natives()), whole=True
        ).program


def may_fall_back(node: GraphNode) -> bool:
    """Whether the fallback may run the operator of a node: it has a meaning, or onnxruntime may support its domain."""
    return has_meaning(node.domain, node.operator) or node.domain in fallback_domains()


def describe_done(status: str) -> str:
    """Return how a node is done, as text. `status`: "native" or "composed"."""
    return "the shim's own kernel" if status == "native" else "its meaning over the shim's primitives"


def _node_support(node: GraphNode, outcome: Survey) -> NodeSupport:
    error = outcome.failed.get(node.name)
    if isinstance(error, NeedsKnownError):
        status, reason = "composed", AGAIN + error.reason
    elif error is not None:
        status = "fallback" if may_fall_back(node) else "unsupported"
        reason = error.reason
    elif node.name in outcome.unseen:
        status, reason = "composed", UNSEEN
    else:
        status = outcome.done.get(node.name, "composed")
        reason = describe_done(status)
    return NodeSupport(node.name, node.operator, node.opset, status, reason)
