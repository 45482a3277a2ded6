"""The TFLite shim: compile ONNX programs to flatbuffers, write them to files, and run both on a TFLite runtime."""

import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from onnx_compat.passes import Pass
from onnx_compat.shim import (
    Compiled,
    ConversionError,
    Description,
    Emitter,
    OpenedFile,
    Port,
    Preview,
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
from onnx_compat_tflite.emitter import TFLiteEmitter
from onnx_compat_tflite.file_ports import (
    draws_from_seed,
    has_deferred_sizes,
    has_open_inputs,
    has_open_slices,
    has_shifted_factors,
    int4_products,
    must_reject_empty_inputs,
    open_window_outputs,
    read_ports,
    resizes_inside_branches,
    supports_empty_windows,
)
from onnx_compat_tflite.file_trial import is_file_to_run, note_file_to_run, note_sound_file, try_file
from onnx_compat_tflite.file_validation import validate_file
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.node_ops import NamedValues, preview_model
from onnx_compat_tflite.passes import GRAPH, PROGRAM
from onnx_compat_tflite.quantize.schemes import SCHEMES, scheme_of
from onnx_compat_tflite.runtime import InterpretedModel, Precautions
from onnx_compat_tflite.signatures import extract_signature, join_models

__all__ = ["SHIM", "TFLiteShim"]

#: The largest file that is run once after it was written. A run of a larger one may take longer than its conversion. Processor
#: time for seven 3x3 convolutions of 128 channels (4.1 MB, LiteRT 2.3): 0.01 s to convert; 0.06 s to run at 56x56, and 0.22 s
#: at 112x112.
_CHEAP_BYTES = 4 << 20


class TFLiteShim(Shim):
    """Compile programs to .tflite models, and run them by LiteRT or tflite-runtime. It does not import TensorFlow."""

    name = "tflite"
    modules = ("ai_edge_litert", "tflite_runtime")
    formats = {"tflite": (".tflite", "TensorFlow Lite flatbuffer")}
    schemes = {"tflite": SCHEMES}

    def __init__(self, kernels: Optional[Kernels] = None) -> None:
        """Target the runtime of `kernels`: files use no other ops. None: target the installed runtime."""
        self._target_kernels = kernels

    @property
    def _kernels(self) -> Kernels:
        return self._target_kernels or features.kernels()

    @property
    def passes(self) -> Sequence[Pass]:
        return [*PROGRAM.distinct, *GRAPH.distinct]

    def portable(self) -> "TFLiteShim":
        return TFLiteShim(Kernels())

    def probe(self) -> Probe:
        runtime, reason = features.find_runtime()
        if runtime is None:
            return Probe(False, reason)
        return Probe(True, reason, runtime.name, runtime.version, features.features())

    def emitter(self) -> Emitter:
        return TFLiteEmitter(self._kernels)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        """Return a context whose value is an emitter for trials. The model that it builds is discarded."""
        yield self.emitter()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        self.resolve_device(device)
        model = build(program, features.kernels())
        source = {"model_content": fb.to_bytes(model, self._stores_outside(model))}
        return self._open_model(source, model, program.inputs, program.outputs)

    def export(self, program: Program, path: str, form: str) -> None:
        model = build(program, self._kernels, own=True)
        is_run_needed = not has_open_inputs(model) and has_deferred_sizes(model)

        def check(written: str) -> None:
            model.subgraphs.clear()  # the weights are in the file; the runtime allocates its own copy of them
            self.check_loads(written)
            if is_run_needed and os.path.getsize(written) <= _CHEAP_BYTES:
                note_file_to_run(written)

        fb.write(model, path, self._stores_outside(model), check=check)

    def preview(self, program: Program, form: str) -> Preview:
        named = NamedValues(program)
        model = build(program, self._kernels, own=True)
        self._check_loads(model_content=fb.to_bytes(model, self._stores_outside(model)))
        return preview_model(model, named)

    def _stores_outside(self, model: fb.ModelSpec) -> bool:
        """Whether the constants of a model are stored after the flatbuffer: only if the model is larger than 2 GB.

        For such a model, raises ConversionError in two cases:

        - The shim was made with explicit kernels.
        - The installed runtime does not read constants after the flatbuffer, or no runtime is installed.
        """
        if not fb.is_oversized(model):
            return False
        if self._target_kernels is not None or not features.reads_outside():
            runtime = "this runtime reads" if self._target_kernels is None else "old runtimes read"
            raise ConversionError(
                "the model exceeds the 2 GB of a flatbuffer, and %s constants from nowhere else" % runtime,
                hint="use tflite-runtime 2.14 or LiteRT, or store the weights of the model as float16",
                shim=self.name,
            )
        return True

    def quantize(self, path: str, form: str, how: Quantization) -> None:
        # loaded here: it takes memory that a conversion without quantisation does not need
        from onnx_compat_tflite.quantize.rewrite import quantize

        quantize(path, how, self._runtime(), self._kernels, self.check_loads)

    def check_loads(self, path: str) -> None:
        """Load a .tflite file in the installed runtime without the delegate, and allocate its tensors.

        Open sizes get trial values (see `allocate`). A file that the runtime accepts is noted by `note_sound_file`.
        Raises ConversionError if the runtime refuses the file. Raises ShimError if no runtime is installed.
        """
        self._check_loads(model_path=path)
        note_sound_file(path)

    def _check_loads(self, **source: Any) -> None:
        """Load a model in the installed runtime without the delegate, and allocate its tensors.

        `source`: the keyword `model_path`, or `model_content` with the bytes of the file. Raises ConversionError if the
        runtime refuses the model. Raises ShimError if no runtime is installed.
        """
        try:
            allocate(self._runtime().interpreter(plain=True, **source))
        except (RuntimeError, ValueError) as error:
            raise ConversionError(
                "the TFLite runtime refuses the file: %s" % str(error).strip().split("\n")[-1],
                hint="this is a bug of onnx-compat: convert again with ONNX_COMPAT_VERIFY=1, which may name the pass at"
                " fault, and report its output with the model",
                shim=self.name,
            ) from error

    def needs_run(self, path: str, form: str) -> bool:
        """Whether only a run can check the file at `path`, because sizes in it depend on values.

        True only for a file that `export` wrote in this process. False for a file of more than 4 MB, and for a file
        with an open input size.
        """
        return is_file_to_run(path)

    def join(self, parts: Mapping[str, str], path: str, form: str) -> None:
        model = join_models({key: validate_file(fb.read(part)) for key, part in parts.items()})
        fb.write(model, path, self._stores_outside(model), check=self.check_loads)

    def load_signature(
        self, path: str, form: str, signature: str
    ) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        model = validate_file(fb.read(path))
        try_file(model, path)
        model = extract_signature(model, signature)
        inputs, outputs = read_ports(model)
        source = {"model_content": fb.to_bytes(model, self._stores_outside(model))}
        return self._open_model(source, model, inputs, outputs), inputs, outputs

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        model = validate_file(fb.read(path))
        try_file(model, path)
        inputs, outputs = read_ports(model)
        compiled = self._open_model({"model_path": os.fspath(path)}, model, inputs, outputs)
        compiled.scheme = scheme_of(model)
        return compiled, inputs, outputs

    def describe(self, path: str, form: str) -> Description:
        from onnx_compat_tflite.describe import describe_file  # not needed to convert

        return describe_file(path)

    def look_inside(self, path: str, form: str) -> OpenedFile:
        from onnx_compat_tflite.tensor_dump import TensorDump  # not needed to convert

        return TensorDump(self._runtime(), path)

    def _open_model(
        self, source: Dict[str, Any], model: fb.ModelSpec, inputs: Sequence[Port], outputs: Sequence[Port]
    ) -> InterpretedModel:
        """Open a model in an interpreter of the installed runtime, with workarounds for the defects of that runtime.

        Raises UnsupportedError if the runtime does not load the model, or would multiply its int4 weights wrongly.
        Raises ShimError if no runtime is installed.
        """
        kernels = features.kernels()
        quirks, int4 = kernels.quirks, int4_products(model)
        if not all(features.multiplies_int4(blocks, True) for blocks in int4):
            raise UnsupportedError(
                "the TFLite runtime here multiplies weights of int4 wrongly, or not at all",
                hint="use LiteRT 2.1 or newer",
                shim=self.name,
            )
        breaks_under_delegate = (
            (resizes_inside_branches(model) and not quirks.delegate_resizes_branches)
            or (has_shifted_factors(model) and not quirks.delegate_uses_zero_points)
            or (has_open_slices(model) and not quirks.delegate_slices_to_empty)
            or not all(features.multiplies_int4(blocks, False) for blocks in int4)
        )
        window_outputs = open_window_outputs(model)
        precautions = Precautions(
            without_delegate=breaks_under_delegate or not quirks.delegated,
            rejects_empty_inputs=must_reject_empty_inputs(model, kernels),
            window_outputs=() if supports_empty_windows(kernels) else window_outputs,
            has_open_windows=bool(window_outputs),
            draws_from_seed=draws_from_seed(model),
        )
        return InterpretedModel(self._runtime(), source, inputs, outputs, precautions)

    def _runtime(self) -> features.Runtime:
        runtime, reason = features.find_runtime()
        if runtime is None:
            raise ShimError(reason, hint=features.NEEDS, shim=self.name)
        return runtime


SHIM = TFLiteShim()
