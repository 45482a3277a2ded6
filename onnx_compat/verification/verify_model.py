"""Verify a model: run a shim or a converted file and an oracle on the same inputs, and compare the outputs."""

import math
import os
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

if TYPE_CHECKING:
    import onnx

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion import port_layout
from onnx_compat.conversion.bundle import Bundle
from onnx_compat.discovery.environment import find_module
from onnx_compat.errors import InputError, InvalidModelError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.feeds import only_array
from onnx_compat.execution.outputs import Outputs
from onnx_compat.execution.runnable import Runnable
from onnx_compat.model import GraphNode, Model, TensorType, ValueInfo
from onnx_compat.shim.port_types import from_port, to_ports
from onnx_compat.verification.compare import Comparison, OutputValue
from onnx_compat.verification.converted_file import ConvertedFile, open_converted
from onnx_compat.verification.criterion import choose_criterion, measure_spread
from onnx_compat.verification.file_errors import add_refused_operator, input_hint
from onnx_compat.verification.generate import generate
from onnx_compat.verification.intermediate_values import InBundle, InFile, OnShim
from onnx_compat.verification.layers import Subject, examine_layers
from onnx_compat.verification.npz import load_inputs
from onnx_compat.verification.onnx_file import OnnxFile
from onnx_compat.verification.oracle import REFERENCE, Answer, optimised_outputs, run_oracle
from onnx_compat.verification.quantizing_nodes import quantizing_nodes
from onnx_compat.verification.report import FedInput, Report

__all__ = ["Inputs", "ModelSource", "name_inputs", "verify"]

Inputs = Union[None, Mapping[str, Any], Sequence[Any], str, "os.PathLike[str]"]
#: The models that `load` takes.
ModelSource = Union[str, "os.PathLike[str]", bytes, "onnx.ModelProto", Model]


@typed_errors
def verify(
    model: ModelSource,
    inputs: Inputs = None,
    shim: Optional[str] = None,
    converted: Union[str, "os.PathLike[str]", None] = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    oracle: Optional[str] = None,
    seed: int = 0,
    dims: Optional[Mapping[str, int]] = None,
    layers: bool = False,
    channels_last: Sequence[str] = (),
    signature: Optional[str] = None,
) -> Report:
    """Compare a model on a shim, or a file converted from it, with an oracle, output by output.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        inputs: Arrays by name or in the order of the graph, the array of the only input, or the path of a .npz file.
            None generates them.
        shim: The shim to run on. None selects the first that works, and that reads the format of `converted`.
        converted: A file or folder that was converted from the model, and runs instead of it.
        rtol: The relative tolerance. None: 0.001. Without rtol and atol, a quantised file is judged by the accuracy
            that its kind declares. A model that quantises as it runs (DynamicQuantizeLinear) may also agree by its
            accuracy.
        atol: The absolute tolerance. None: 0.001.
        oracle: "onnxruntime" or the name of a shim. None selects onnxruntime if it is installed and can run the model,
            else the reference; a note of the report then says why. onnxruntime runs a model that quantises as it runs
            without its optimisations, and with them to measure how far its results differ.
        seed: The seed of generated inputs.
        dims: Sizes of open dimensions of generated inputs: {"batch": 4}. Other open sizes are small.
        layers: Whether the value of every node is compared too (`Report.layers`).
        channels_last: The `channels_last` of the conversion; requires `converted`. Inputs keep the layout of the model.
        signature: The signature to run, if `converted` holds several models. None selects the default signature. Cannot
            be combined with `layers`.

    Returns:
        The report: `ok`, `summary`, and a comparison for each output.

    Raises:
        InputError: An input does not fit the model or the file; `converted` is missing; or arguments contradict.
        InvalidModelError: The model is missing or not valid.
        ShimError: A shim is not installed or does not work.
        MissingDependencyError: The requested oracle onnxruntime is not installed.
        UnsupportedError: The shim, the file or the requested oracle cannot run the model. Or inputs cannot be
            generated.

    Examples:
        >>> report = onnx_compat.verify("digits.onnx", shim="reference", oracle="reference")
        >>> report.ok, report.outputs[0].name, report.outputs[0].max_abs_error
        (True, 'scores', 0.0)
    """
    from onnx_compat import load, prepare

    loaded = load(model)
    channels_last_ports = _check_channels_last(loaded, channels_last, converted)
    feeds = _select_inputs(inputs, loaded, seed, dims)
    runnable: Any
    _check_signature(signature, converted, layers)
    if converted is None:
        runnable = prepare(loaded, shim=shim)
    else:
        runnable = open_converted(converted, shim, signature)
        if layers and isinstance(runnable, OnnxFile):
            raise InputError("the values of nodes of an .onnx file are not compared", hint="verify it without layers")
    names = [spec.name for spec in loaded.outputs]
    asks_oracle_first = feeds.seed is not None and not all(map(_is_fixed, loaded.inputs))
    quantizers = quantizing_nodes(loaded)
    is_optimised = not quantizers
    answer = _ask_oracle(loaded, feeds.values, oracle, is_optimised) if asks_oracle_first else None
    results = _run_subject(runnable, loaded, feeds, channels_last_ports, converted)
    subject = _describe_subject(runnable.shim, converted)  # of an .onnx file known after the run
    outputs = _order_outputs(results, names, by_name=converted is not None)
    answer = run_oracle(loaded, feeds.values, oracle, optimised=is_optimised) if answer is None else answer
    optimised = optimised_outputs(loaded, feeds.values, answer)
    spread = None if optimised is None else measure_spread(optimised, answer.outputs)
    scheme = getattr(runnable, "scheme", None)
    criterion = choose_criterion(rtol, atol, scheme, bool(quantizers), spread)
    comparisons: List[Comparison] = []
    for name, got, want in zip_longest(names, outputs, answer.outputs):
        comparisons.extend(criterion.compare(name, got, want))
    notes = [*answer.notes, *getattr(runnable, "notes", ()), *_describe_quantizers(quantizers, answer, spread)]
    fallbacks = list(getattr(runnable, "fallbacks", ()))
    if fallbacks:
        notes.append("outside the framework, in the fallback, ran %s" % ", ".join(map(repr, fallbacks)))
    if subject == answer.oracle:
        remedy = "install onnxruntime" if find_module("onnxruntime") is None else "choose another oracle"
        notes.append("the model was compared with itself, which proves nothing: " + remedy)
    if scheme is not None:
        notes.append("the file is quantised as '%s': %s" % (scheme.kind, scheme.meaning))
    examined = None
    if layers:
        values_of: Subject
        if converted is None:
            values_of = OnShim(loaded, runnable.shim)
        elif isinstance(runnable, Bundle):
            values_of = InBundle(runnable)
        else:
            values_of = InFile(loaded, converted, runnable.shim, channels_last_ports)
        examined = examine_layers(loaded, feeds.values, values_of, oracle, criterion.compare)
        if examined.layers and examined.ok and not all(comparison.ok for comparison in comparisons):
            notes.append(_WRONG_IF_FUSED if converted is None else _WRONG_IF_DELEGATED)
    return Report(
        model=loaded.path or loaded.graph.name,
        subject=subject,
        oracle=answer.oracle,
        rtol=criterion.rtol,
        atol=criterion.atol,
        seed=feeds.seed,
        inputs=[_describe_input(name, value) for name, value in feeds.values.items()],
        outputs=comparisons,
        notes=notes,
        layers=examined,
        fallbacks=dict(getattr(runnable, "fallback_reasons", {})),
        fidelity=criterion.used_for(comparisons).fidelity,
        scheme=None if scheme is None else scheme.kind,
        oracle_optimised=answer.optimised,
        oracle_spread=spread,
    )


def _describe_subject(shim: str, converted: "Union[str, os.PathLike[str], None]") -> str:
    """Return what is verified as a text. `shim`: what runs it. `converted`: the path of the converted file, or None."""
    if converted is None:
        return "shim %s" % shim
    return "%s on shim %s" % (os.path.basename(os.path.normpath(os.fspath(converted))), shim)


_WRONG_IF_FUSED = "every node agrees if its value is an output: the error occurs only if nodes are fused"
_WRONG_IF_DELEGATED = "every node agrees without the default delegate of the runtime: the error occurs only with it"


def _describe_quantizers(nodes: Sequence[GraphNode], answer: Answer, spread: Optional[float]) -> List[str]:
    """Return a list with a note on a model that quantises as it runs; an empty list for another model.

    `nodes`: the quantising nodes. `spread`: the SNR in dB between the results of onnxruntime without and with its
    optimisations, or None.
    """
    if not nodes:
        return []
    first = "'%s' (%s)" % (nodes[0].name, nodes[0].operator)
    more = " and %d more" % (len(nodes) - 1) if len(nodes) > 1 else ""
    note = "the model quantises values as it runs, in %s%s" % (first, more)
    if answer.optimised is False:
        note += ": onnxruntime ran without its optimisations"
    if spread == math.inf:
        note += ", which do not change its results"
    elif spread is not None:
        note += ". With them, its own results have an SNR of %.1f dB" % spread
    return [note]


def name_inputs(inputs: Union[Mapping[str, Any], Sequence[Any]], names: Sequence[str]) -> Dict[str, Any]:
    """Return inputs as a dict by name. `inputs` is a dict, a sequence in the order of `names`, or the only array.

    A dict is copied, and its names are not checked. If a sequence is shorter than `names`, the last names are left out.
    Raises `InputError` if a sequence is longer than `names`, and for an array if there are several names.
    """
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if not isinstance(inputs, (list, tuple)):
        inputs = [only_array(inputs, names)]
    if len(inputs) > len(names):
        raise InputError(
            "%d inputs are given, the model has %d" % (len(inputs), len(names)),
            hint="give only these inputs: %s" % ", ".join(names),
        )
    return dict(zip(names, inputs))


def _check_channels_last(
    model: Model, names: Sequence[str], converted: Union[str, "os.PathLike[str]", None]
) -> Sequence[str]:
    """Return `names` as a tuple, after a check.

    Raise `InputError` in these cases:

    - There are names, but no converted file.
    - A name is neither an output nor an input without a default.
    - Its declared type is no tensor, or its declared rank is below 3.
    """
    if names and converted is None:
        raise InputError(
            "only a converted file has inputs and outputs with their channels last",
            hint="give the path of the file: `converted` (--converted)",
        )
    return port_layout.check_channels_last(model.graph, names) if names else ()


def _check_signature(signature: Optional[str], converted: Union[str, "os.PathLike[str]", None], layers: bool) -> None:
    """Raise `InputError` for a signature without a converted file, or with `layers`."""
    if signature is not None and converted is None:
        raise InputError("only a converted file has signatures", hint="give its path: `converted` (--converted)")
    if signature is not None and layers:
        raise InputError(
            "the values of nodes are read in the first model of a file, not in the signature '%s'" % signature,
            hint="verify without layers (--layers, --report), or the file from before `join`",
        )


def _run_subject(
    runnable: Union[Runnable, ConvertedFile, Bundle, OnnxFile],
    model: Model,
    feeds: "_Feeds",
    channels_last: Sequence[str],
    converted: Union[str, "os.PathLike[str]", None],
) -> Union[Outputs, Mapping[str, Any]]:
    """Run a subject, which is the shim or the converted file, and return its outputs.

    The result is a dict by name for a `ConvertedFile`, and for any subject if `channels_last` has names. Otherwise it
    is an `Outputs`.

    The inputs named in `channels_last` are transposed to the layout of the file. The outputs are transposed back. For a
    `ConvertedFile`, inputs are converted to the dtypes of the file (`to_ports`), and outputs to those of the model.

    Raises the errors of the run, with these changes:

    - InputError of a `ConvertedFile` or an `OnnxFile`: its hint becomes that of `input_hint`, if this is not None.
    - UnsupportedError of a `ConvertedFile`: `add_refused_operator` extends its reason.

    `converted`: the path of the converted file; None for a shim.
    """
    feed = port_layout.move_channels(feeds.values, channels_last, "last")
    if isinstance(runnable, ConvertedFile):
        feed = to_ports(feed, runnable.input_ports)
    try:
        results = runnable.run(feed)
    except InputError as error:
        if isinstance(runnable, (ConvertedFile, OnnxFile)):
            is_generated = feeds.seed is not None
            hint = input_hint(model.inputs, runnable.inputs, feeds.values, channels_last, is_generated)
            error.hint = hint or error.hint
        raise
    except UnsupportedError as error:
        if isinstance(runnable, ConvertedFile) and converted is not None:
            add_refused_operator(error, converted, runnable.shim)
        raise
    if not isinstance(runnable, ConvertedFile):
        return port_layout.move_channels(results.as_dict(), channels_last, "first") if channels_last else results
    values, ports = results.as_dict(), {port.name: port for port in runnable.output_ports}
    for info in model.outputs:
        if info.name in ports and isinstance(info.type, TensorType) and info.type.dtype is not None:
            values[info.name] = from_port(values[info.name], ports[info.name], info.type.dtype)
    return port_layout.move_channels(values, channels_last, "first")


def _is_fixed(info: ValueInfo) -> bool:
    return isinstance(info.type, TensorType) and info.type.static


def _ask_oracle(model: Model, feed: Dict[str, Any], oracle: Optional[str], optimised: bool) -> Answer:
    """Return the answer of the oracle for generated inputs of a model with open sizes. Arguments: see `run_oracle`.

    Raises InputError if the sizes may be why the oracle refuses the inputs: the reference refuses these inputs too,
    although it can run every node of the model. Any other error of the oracle is raised unchanged.
    """
    try:
        return run_oracle(model, feed, oracle, optimised=optimised)
    except OnnxCompatError as error:
        if not isinstance(error, (UnsupportedError, InputError, InvalidModelError)) or not _is_refused(model, feed):
            raise
        shapes = ", ".join("'%s' %s" % (name, list(np.shape(value))) for name, value in feed.items())
        raise InputError(
            "the model itself refuses inputs of the generated sizes (%s): %s" % (shapes, error.reason),
            hint="give sizes that fit the model: --dim NAME=SIZE, or inputs: --inputs FILE",
            node=error.node,
            operator=error.operator,
            opset=error.opset,
        ) from error


def _is_refused(model: Model, feed: Dict[str, Any]) -> bool:
    """Return whether the reference raises an error for these inputs, although it can run every node of the model."""
    from onnx_compat import support

    if any(node.status not in ("native", "composed") for node in support(model, shim=REFERENCE)):
        return False
    try:
        run_oracle(model, feed, REFERENCE)
    except OnnxCompatError:
        return True
    return False


class _Feeds(NamedTuple):
    """The inputs of a verification by name, and the seed from which they were generated (None: they were given)."""

    values: Dict[str, Any]
    seed: Optional[int]


def _select_inputs(inputs: Inputs, model: Model, seed: int, dims: Optional[Mapping[str, int]]) -> _Feeds:
    """Return the inputs of a verification: as given, read from a .npz file, or generated from the seed.

    Raises `InputError` in these cases:

    - `dims` and `inputs` are both given.
    - `inputs` is a sequence that is longer than the list of the model's inputs.
    - The .npz file is not readable, or lacks a required input (see `load_inputs`).

    Raises the errors of `generate` too, if it generates the inputs.
    """
    if inputs is None:
        return _Feeds(generate(model.inputs, seed, dims), seed)
    if dims:
        raise InputError("dims are for generated inputs, and inputs are given", hint="leave out dims or the inputs")
    if isinstance(inputs, (str, os.PathLike)):
        inputs = load_inputs(inputs, [info.name for info in model.graph.required])
    return _Feeds(name_inputs(inputs, [info.name for info in model.inputs]), None)


def _order_outputs(
    outputs: Union[Outputs, Mapping[str, Any]], names: Sequence[str], by_name: bool
) -> List[OutputValue]:
    """Return the outputs as a list in the order of `names`, the outputs of the model.

    `by_name`: look up each name, because a file may have another order. An output that the file lacks becomes None.
    Without `by_name`, `outputs` must already have the order of the model.
    """
    if not by_name:
        return list(outputs)
    result = []
    for name in names:
        try:
            result.append(outputs[name])
        except LookupError:
            result.append(None)
    return result


def _describe_input(name: str, value: OutputValue) -> FedInput:
    """Return the name, the dtype and the shape of an input. The dtype of every array of strings is "string".

    A sequence has the dtype "sequence" and the shape (length,). None has the dtype "none" and the shape ().
    """
    if value is None or isinstance(value, (list, tuple)):
        return FedInput(name, "sequence" if value is not None else "none", (len(value),) if value is not None else ())
    array = np.asarray(value)
    return FedInput(name, "string" if array.dtype.kind in "OSU" else str(array.dtype), tuple(array.shape))
