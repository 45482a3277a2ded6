"""One model, one set of inputs, two runtimes: the whole of a verification."""

import os
from functools import partial
from itertools import zip_longest
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from onnx_compat.conversion import port_layout
from onnx_compat.conversion.bundle import Bundle
from onnx_compat.errors import InputError
from onnx_compat.model import Model
from onnx_compat.verification.accuracy import judged, measured
from onnx_compat.verification.compare import Comparison, compare
from onnx_compat.verification.converted_file import Opened, open_converted
from onnx_compat.verification.generate import generate
from onnx_compat.verification.intermediate_values import InBundle, InFile, OnShim
from onnx_compat.verification.layers import Subject, examine_layers
from onnx_compat.verification.npz import load_npz
from onnx_compat.verification.oracle import ask
from onnx_compat.verification.report import Fed, Report

__all__ = ["Inputs", "name_outputs", "verify"]

#: Of an element, relative and absolute, where nobody says another.
TOLERANCE = 1e-3

Inputs = Union[None, Mapping[str, Any], Sequence[Any], str, "os.PathLike[str]"]


def verify(
    model: Any,
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
) -> Report:
    """Compare a model on a shim, or a file converted from it, with an oracle, output by output.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        inputs: Arrays by name or in the order of the graph, or the path of a .npz file. None generates them.
        shim: The shim to run on. None selects the first that works.
        converted: A file or folder that was converted from the model, and runs in its place.
        rtol: The relative tolerance. None: 0.001; a quantised file is then judged by the accuracy that its kind declares.
        atol: The absolute tolerance, likewise.
        oracle: "onnxruntime" or the name of a shim. None takes onnxruntime if it is installed and can run the model, else
            the reference; a note of the report then says why.
        seed: The seed of generated inputs.
        dims: Sizes of open dimensions of generated inputs: {"batch": 4}. Other open sizes are small.
        layers: Whether the value of every node is compared too (`Report.layers`).
        channels_last: The `channels_last` of the conversion. Inputs keep the layout of the model.

    Returns:
        The report: `ok`, `summary`, and a comparison for each output.

    Raises:
        InputError: An input does not fit the model, or the file is not one of the model.
        ShimError: The shim or the oracle is not installed or does not work.

    Examples:
        >>> report = onnx_compat.verify("digits.onnx", shim="reference", oracle="reference")
        >>> report.ok, report.outputs[0].name, report.outputs[0].max_abs_error
        (True, 'scores', 0.0)
    """
    from onnx_compat import load, prepare

    loaded = load(model)
    turned = _turned(loaded, channels_last, converted)
    fed = _values(inputs, loaded.inputs, seed, dims)
    runnable: Any
    if converted is None:
        runnable = prepare(loaded, shim=shim)
        subject = "shim %s" % runnable.shim
    else:
        runnable = open_converted(converted, shim)
        subject = "%s on shim %s" % (os.path.basename(os.path.normpath(os.fspath(converted))), runnable.shim)
    names = [spec.name for spec in loaded.outputs]
    results = _results(runnable, fed.values, turned)
    got = _outputs(results, names, by_name=converted is not None)
    answer = ask(loaded, fed.values, oracle)
    notes = list(answer.notes)
    outside = list(getattr(runnable, "fallbacks", ()))
    if outside:
        notes.append("outside of the framework, in the fallback, ran %s" % ", ".join(map(repr, outside)))
    if subject == answer.oracle:
        notes.append("the model was compared with itself, which proves nothing: install onnxruntime")
    scheme = getattr(runnable, "scheme", None)
    fidelity = scheme.fidelity if scheme is not None and rtol is None and atol is None else None
    rtol = TOLERANCE if rtol is None else rtol
    atol = TOLERANCE if atol is None else atol
    comparing = partial(_compared, rtol=rtol, atol=atol, quantised=scheme is not None, fidelity=fidelity)
    comparisons: List[Comparison] = []
    for name, mine, theirs in zip_longest(names, got, answer.outputs):
        comparisons.extend(comparing(name, mine, theirs))
    if scheme is not None:
        notes.append("the file is quantised as '%s': %s" % (scheme.kind, scheme.meaning))
    inner = None
    if layers:
        within: Subject
        if converted is None:
            within = OnShim(loaded, runnable.shim)
        elif isinstance(runnable, Bundle):
            within = InBundle(runnable)
        else:
            within = InFile(loaded, converted, runnable.shim, turned)
        inner = examine_layers(loaded, fed.values, within, oracle, comparing)
        if inner.layers and inner.ok and not all(one.ok for one in comparisons):
            notes.append(_TOGETHER if converted is None else _DELEGATED)
    return Report(
        model=loaded.path or loaded.graph.name,
        subject=subject,
        oracle=answer.oracle,
        rtol=rtol,
        atol=atol,
        seed=fed.seed,
        inputs=[_described(name, value) for name, value in fed.values.items()],
        outputs=comparisons,
        notes=notes,
        layers=inner,
        fallbacks=dict(getattr(runnable, "fallback_reasons", {})),
        fidelity=fidelity,
    )


_TOGETHER = "every node is right where its value is looked at: the fault shows only where nodes are fused"
_DELEGATED = "every node is right without the default delegate of the runtime: the fault shows only with it"


_OTHER_FILE = (
    "is it the file of this model? what was converted with channels_last (--channels-last) is verified with the same"
)


def name_outputs(inputs: Union[Mapping[str, Any], Sequence[Any]], names: Sequence[str]) -> Dict[str, Any]:
    """Inputs in the order of the graph, by name."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if len(inputs) > len(names):
        raise InputError(
            "%d inputs are given, the model has %d" % (len(inputs), len(names)),
            hint="its inputs are %s" % ", ".join(names),
        )
    return dict(zip(names, inputs))


def _turned(model: Model, names: Sequence[str], converted: Any) -> Sequence[str]:
    if names and converted is None:
        raise InputError("only a converted file has its channels last", hint="name the file: `converted` (--converted)")
    return port_layout.check_channels_last(model.graph, names) if names else ()


def _results(runnable: Any, values: Mapping[str, Any], turned: Sequence[str]) -> Any:
    try:
        results = runnable.run(port_layout.turned(values, turned, "last"))
    except InputError as error:
        if isinstance(runnable, Opened) and not turned:
            error.at(hint=_OTHER_FILE)
        raise
    return port_layout.turned(results.as_dict(), turned, "first") if turned else results


class _Fed(NamedTuple):
    values: Dict[str, Any]
    seed: Optional[int]


def _values(inputs: Inputs, specs: Sequence[Any], seed: int, dims: Optional[Mapping[str, int]]) -> _Fed:
    if inputs is None:
        return _Fed(generate(specs, seed, dims), seed)
    if dims:
        raise InputError("dims are for generated inputs, and inputs are given", hint="leave one of them out")
    if isinstance(inputs, (str, os.PathLike)):
        inputs = load_npz(inputs)
    return _Fed(name_outputs(inputs, [spec.name for spec in specs]), None)


def _compared(
    name: str, got: Any, want: Any, rtol: float, atol: float, quantised: bool, fidelity: Optional[float]
) -> Iterator[Comparison]:
    """With how accurate it is, of a quantised file, which may be what it is judged by."""
    for comparison in compare(name, got, want, rtol, atol):
        found = measured(comparison, got, want) if quantised else comparison
        yield found if fidelity is None else judged(found, fidelity)


def _outputs(outputs: Any, names: Sequence[str], by_name: bool) -> List[Any]:
    """A converted file keeps the names of the outputs, its format not always their order. A lost one is None."""
    if not by_name:
        return list(outputs)
    result = []
    for name in names:
        try:
            result.append(outputs[name])
        except LookupError:
            result.append(None)
    return result


def _described(name: str, value: Any) -> Fed:
    if value is None or isinstance(value, (list, tuple)):
        return Fed(name, "sequence" if value is not None else "none", (len(value),) if value is not None else ())
    array = np.asarray(value)
    return Fed(name, "string" if array.dtype.kind in "OSU" else str(array.dtype), tuple(array.shape))
