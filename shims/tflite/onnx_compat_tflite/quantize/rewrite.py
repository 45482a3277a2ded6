"""Quantise a float .tflite file: replace it by a file with quantised weights, or weights and activations."""

from itertools import chain
from typing import Callable, Dict, Iterator, List, Mapping, Optional

import numpy as np

from onnx_compat.shim import ConversionError, Quantization, UnsupportedError, to_ports
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.file_ports import read_ports
from onnx_compat_tflite.graph_verifier import check_graph
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.quantize import library, products
from onnx_compat_tflite.quantize.integer_ports import store_ports
from onnx_compat_tflite.quantize.ranges import HUGE, Ranges, measure_ranges
from onnx_compat_tflite.quantize.schemes import KEY, PRODUCTS, SCHEMES
from onnx_compat_tflite.quantize.trial import run_once
from onnx_compat_tflite.quantize.weights import store, store_gates

__all__ = ["quantize"]

#: Metadata that the writer computes from the operator versions.
_RUNTIME = "min_runtime_version"


def quantize(path: str, how: Quantization, runtime: Runtime, kernels: Kernels, check: Callable[[str], None]) -> None:
    """Quantise the .tflite file `path` as `how` says, and replace it by the quantised file.

    For the kinds of `library`, a child process first loads the quantised file. If the kind is calibrated, the child
    process also runs the file on the first sample. `check` is then called with the path of the quantised file, before
    it replaces `path`. Raises

    - UnsupportedError if the model has nothing to quantise, or does not run on a sample,
    - UnsupportedError if the runtime lacks int4, or its kernels lack blocks of this size,
    - ConversionError if an input or output cannot have the dtype that `how` requests (see `store_ports`),
    - MissingDependencyError if the kind needs a package that is not installed,
    - ConversionError if the library fails, the child process fails, or `check` raises UnsupportedError or
      ConversionError.

    Other exceptions of `check`, and exceptions while the samples are read, are passed on.
    """
    model = fb.read(path)
    kind = how.scheme.kind
    trial: Dict[str, np.ndarray] = {}
    ranges = None
    if kind in library.KINDS:
        library.check_library(kind)
        ranges = _calibrate(path, model, how, runtime, trial)
        model = library.quantize_with_library(model, kind, ranges)
        store_gates(model)
        store_ports(model, how.input_type, how.output_type)
    elif kind == PRODUCTS:
        products.pack(model, how.block, kernels)
    else:
        store(model, kind, how.block, kernels)
    if not _is_quantized(model):
        raise UnsupportedError(
            "there is nothing in this model that can be quantised as '%s'" % kind,
            hint=_explain_nothing(ranges),
        )
    _reset_versions(model, kind)

    def check_result(written: str) -> None:
        try:
            if kind in library.KINDS:
                ports = read_ports(model)[0] if trial else ()
                feed = to_ports({name: np.asarray(array) for name, array in trial.items()}, ports)
                run_once(written, [feed[port.name] for port in ports])
            check(written)
        except (ConversionError, UnsupportedError) as error:
            raise ConversionError(
                "quantised as '%s', the file does not work: %s" % (kind, error.reason),
                hint="try another kind: %s" % ", ".join(scheme.kind for scheme in SCHEMES if scheme.kind != kind),
            ) from error

    fb.write(check_graph(model, "quantisation"), path, check=check_result)


def _calibrate(
    path: str, model: fb.ModelSpec, how: Quantization, runtime: Runtime, trial: Dict[str, np.ndarray]
) -> Optional[Ranges]:
    """Return the ranges of the tensors over the samples of `how`, or None if the scheme needs no calibration data.

    A calibrated scheme needs at least one sample. Side effect for a calibrated scheme: the inputs of the first sample
    are added to the dict `trial`. Raises UnsupportedError if the model does not run on a sample.
    """
    if not how.scheme.calibrated:
        return None
    samples: Iterator[Mapping[str, np.ndarray]] = iter(how.samples)
    trial.update(next(samples))
    return measure_ranges(path, model, chain([trial], samples), runtime)


def _explain_nothing(ranges: Optional[Ranges]) -> str:
    if ranges is not None and ranges.unbounded:
        return "it has values beyond %d, which stay float32: give calibration data like its training data" % HUGE
    return "it has no large constants that are weights of convolutions or products of matrices"


def _is_quantized(model: fb.ModelSpec) -> bool:
    """Whether the model has a tensor with a scale, or a float16 constant. A float32 model has neither."""
    tensors: List[fb.TensorSpec] = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    has_scale = any(tensor.quantization is not None and tensor.quantization.scale for tensor in tensors)
    return has_scale or any(tensor.dtype == "float16" and tensor.buffer is not None for tensor in tensors)


def _reset_versions(model: fb.ModelSpec, kind: str) -> None:
    """Store the kind in the metadata of `model`, and clear its operator versions and its minimum runtime version.

    The file writer computes these versions for the quantised dtypes.
    """
    model.metadata.pop(_RUNTIME, None)
    model.metadata[KEY] = kind.encode()
    for graph in model.subgraphs:
        for operator in graph.operators:
            operator.version = None
