"""The shim: ONNX programs as TFLite flatbuffers, and the runtimes that run them."""

import os
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple

from onnx_compat.passes import Pass
from onnx_compat.shim import (
    Compiled,
    ConversionError,
    Description,
    Emitter,
    OpenedFile,
    Port,
    Probe,
    Program,
    Quantization,
    Shim,
    ShimError,
    UnsupportedError,
)
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import allocate
from onnx_compat_tflite.build import build
from onnx_compat_tflite.describe import described
from onnx_compat_tflite.emitter import TFLiteEmitter
from onnx_compat_tflite.file_ports import (
    bears_nothing,
    cutting,
    fragile,
    int4_products,
    ports,
    resizing,
    seeded,
    shifted,
    windows,
)
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes import GRAPH, PROGRAM
from onnx_compat_tflite.quantize import SCHEMES, quantize, scheme_of
from onnx_compat_tflite.runtime import Handling, Interpreted
from onnx_compat_tflite.signatures import alone, joined
from onnx_compat_tflite.tensor_dump import Insight

__all__ = ["SHIM", "TFLiteShim"]


class TFLiteShim(Shim):
    """TensorFlow is not needed for anything here, and never imported."""

    name = "tflite"
    modules = ("ai_edge_litert", "tflite_runtime")
    formats = {"tflite": (".tflite", "TensorFlow Lite flatbuffer")}
    schemes = {"tflite": SCHEMES}

    def __init__(self, kernels: Optional[Kernels] = None) -> None:
        """`kernels`: what files are written for; None: those of the runtime here."""
        self._written_for = kernels

    @property
    def _kernels(self) -> Kernels:
        return self._written_for or features.kernels()

    @property
    def passes(self) -> Sequence[Pass]:
        return [*PROGRAM.distinct, *GRAPH.distinct]

    def portable(self) -> "TFLiteShim":
        return TFLiteShim(Kernels())

    def probe(self) -> Probe:
        runtime, reason = features.find()
        if runtime is None:
            return Probe(False, reason)
        return Probe(True, reason, runtime.name, runtime.version, features.features())

    def emitter(self) -> Emitter:
        return TFLiteEmitter(self._kernels)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        """Operators are appended to a model that nobody writes."""
        yield self.emitter()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        self.resolve_device(device)
        model = build(program, features.kernels())
        source = {"model_content": fb.to_bytes(model, self._outside(model))}
        return self._interpreted(source, model, program.inputs, program.outputs)

    def export(self, program: Program, path: str, form: str) -> None:
        model = build(program, self._kernels, own=True)

        def check(written: str) -> None:
            model.subgraphs.clear()  # a runtime lays out weights of its own, as large as those that the file has now
            self._accepted(written)

        fb.write(model, path, self._outside(model), check=check)

    def _outside(self, model: fb.ModelSpec) -> bool:
        """Whether its constants go behind the flatbuffer; refused where the runtime would not find them."""
        if not fb.oversized(model):
            return False
        if self._written_for is not None or not features.reads_outside():
            runtime = "this runtime looks" if self._written_for is None else "old runtimes look"
            raise ConversionError(
                "the model takes more than the 2 GB of a flatbuffer, and %s for constants nowhere else" % runtime,
                hint="tflite-runtime 2.14 and LiteRT do; or store the weights of the model as float16",
                shim=self.name,
            )
        return True

    def quantize(self, path: str, form: str, how: Quantization) -> None:
        quantize(path, how, self._runtime(), self._kernels, self._accepted)

    def _accepted(self, path: str) -> None:
        """Load the file and allocate its tensors, as whoever gets it will."""
        try:
            allocate(self._runtime().interpreter(plain=True, model_path=path))
        except (RuntimeError, ValueError) as error:
            raise ConversionError(
                "the TFLite runtime refuses the file: %s" % str(error).strip().split("\n")[-1],
                hint="this is a bug of onnx-compat: please report it with the model",
                shim=self.name,
            ) from error

    def join(self, parts: Mapping[str, str], path: str, form: str) -> None:
        model = joined({key: fb.read(part) for key, part in parts.items()})
        fb.write(model, path, self._outside(model), check=self._accepted)

    def load_signature(
        self, path: str, form: str, signature: str
    ) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        model = alone(fb.read(path), signature)
        inputs, outputs = ports(model)
        where: Any = {"model_content": fb.to_bytes(model, self._outside(model))}
        return self._interpreted(where, model, inputs, outputs), inputs, outputs

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        model = fb.read(path)
        inputs, outputs = ports(model)
        where: Any = {"model_path": os.fspath(path)}
        interpreted = self._interpreted(where, model, inputs, outputs)
        interpreted.scheme = scheme_of(model)
        return interpreted, inputs, outputs

    def describe(self, path: str, form: str) -> Description:
        return described(path)

    def look_inside(self, path: str, form: str) -> OpenedFile:
        return Insight(self._runtime(), path)

    def _interpreted(
        self, source: Any, model: fb.ModelSpec, inputs: Tuple[Port, ...], outputs: Tuple[Port, ...]
    ) -> Interpreted:
        kernels = features.kernels()
        manners, int4 = kernels.manners, int4_products(model)
        if not all(features.multiplies_int4(blocks, True) for blocks in int4):
            raise UnsupportedError(
                "the TFLite runtime here multiplies weights of int4 wrongly, or not at all",
                hint="LiteRT 2.1 and newer do it",
                shim=self.name,
            )
        misled = (
            (resizing(model) and not manners.follows)
            or (shifted(model) and not manners.zeros)
            or (cutting(model) and not manners.nothing)
            or not all(features.multiplies_int4(blocks, False) for blocks in int4)
        )
        open_windows = windows(model)
        handling = Handling(
            plain=misled or not manners.delegated,
            nonempty=fragile(model, kernels),
            windows=() if bears_nothing(kernels) else open_windows,
            slides=bool(open_windows),
            seeded=seeded(model),
        )
        return Interpreted(self._runtime(), source, inputs, outputs, handling)

    def _runtime(self) -> features.Runtime:
        runtime, reason = features.find()
        if runtime is None:
            raise ShimError(reason, hint=features.NEEDS, shim=self.name)
        return runtime


SHIM = TFLiteShim()
