"""From a float file to a quantised one, in place."""

from itertools import chain
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import numpy as np

from onnx_compat.shim import ConversionError, Quantization, UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import Runtime
from onnx_compat_tflite.file_ports import ports
from onnx_compat_tflite.graph_verifier import check_graph
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.quantize import library, products
from onnx_compat_tflite.quantize.ranges import HUGE, Ranges, ranges
from onnx_compat_tflite.quantize.schemes import KEY, SCHEMES
from onnx_compat_tflite.quantize.trial import survive
from onnx_compat_tflite.quantize.weights import store, store_gates

__all__ = ["quantize"]

_RUNTIME = "min_runtime_version"  # what the writer says anew


def quantize(path: str, how: Quantization, runtime: Runtime, kernels: Kernels, check: Callable[[str], None]) -> None:
    """Quantise the file. It is replaced when `check` accepts what was made, and a sample has run."""
    model = fb.read(path)
    kind = how.scheme.kind
    trial: Dict[str, np.ndarray] = {}
    learnt = None
    if kind in library.KINDS:
        library.required(kind)
        learnt = _learned(path, model, how, runtime, trial)
        model = library.quantized(model, kind, learnt)
        store_gates(model)
    elif kind == products.KIND:
        products.pack(model, how.block, kernels)
    else:
        store(model, kind, how.block, kernels)
    if not _packed(model):
        raise UnsupportedError(
            "there is nothing in this model that can be quantised as '%s'" % kind,
            hint=_why_nothing(learnt),
        )
    _renew(model, kind)

    def accepted(written: str) -> None:
        try:
            if kind in library.KINDS:
                survive(written, [np.asarray(trial[port.name]) for port in ports(model)[0]] if trial else [])
            check(written)
        except (ConversionError, UnsupportedError) as error:
            raise ConversionError(
                "quantised as '%s', the file does not work: %s" % (kind, error.reason),
                hint="another kind may: %s" % ", ".join(one.kind for one in SCHEMES if one.kind != kind),
            ) from error

    fb.write(check_graph(model, "quantisation"), path, check=accepted)


def _learned(path: str, model: fb.ModelSpec, how: Quantization, runtime: Runtime, trial: Dict[str, Any]) -> Any:
    if not how.scheme.calibrated:
        return None
    samples: Iterator[Mapping[str, np.ndarray]] = iter(how.samples)
    trial.update(next(samples))
    return ranges(path, model, chain([trial], samples), runtime)


def _why_nothing(learnt: Optional[Ranges]) -> str:
    if learnt is not None and learnt.boundless:
        return (
            "values beyond %d stay float32, and it has such: give calibration data like what it was trained with" % HUGE
        )
    return "it has no large constants that are weights of convolutions or products of matrices"


def _packed(model: fb.ModelSpec) -> bool:
    """Whether anything is smaller than it was: float models hold no constant of these types."""
    tensors: List[fb.TensorSpec] = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    scaled = any(tensor.quantization is not None and tensor.quantization.scale for tensor in tensors)
    return scaled or any(tensor.dtype == "float16" and tensor.buffer is not None for tensor in tensors)


def _renew(model: fb.ModelSpec, kind: str) -> None:
    """Let the writer find the versions of the operators, which are others with other types."""
    model.metadata.pop(_RUNTIME, None)
    model.metadata[KEY] = kind.encode()
    for graph in model.subgraphs:
        for operator in graph.operators:
            operator.version = None
