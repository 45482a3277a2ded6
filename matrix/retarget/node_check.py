"""Convert a case to another opset by a converter, check the result, and run it: the tasks of the row `nodes`."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import onnx

from matrix.harness.compare import compare, compare_kind
from matrix.harness.run import COARSE
from matrix.peers.child import plain
from matrix.retarget.outcomes import BY_REFERENCE, CONVERTERS, INVALID, NOT_RUN, REFUSED, RIGHT, UNTYPED, WRONG
from matrix.suites.cache import Case

__all__ = ["examine"]

Model = Any
Run = Callable[[Dict[str, Any]], Any]


def by_onnx_compat(model: Model, opset: int) -> Model:
    """Convert a model by this project."""
    from onnx_compat.retarget.conversion import retarget

    return retarget(model, opset)


def by_onnx(model: Model, opset: int) -> Model:
    """Convert a model by the version converter of onnx."""
    from onnx import version_converter

    return version_converter.convert_version(model, opset)


def by_onnxscript(model: Model, opset: int) -> Model:
    """Convert a model by the version converter of onnxscript."""
    onnx_ir = importlib.import_module("onnx_ir")
    version_converter = importlib.import_module("onnxscript.version_converter")
    program = onnx_ir.from_proto(model)
    version_converter.convert_version(program, target_version=opset, fallback=False)
    return onnx_ir.to_proto(program)


_BY = dict(zip(CONVERTERS, (by_onnx_compat, by_onnx, by_onnxscript)))


def examine(case: List[Any], converter: str, opset: int) -> Tuple[str, str]:
    """Convert a case to an opset, run the result, and return (outcome, detail of at most 300 characters).

    `case`: its row of the index. `converter`: one of `CONVERTERS`.
    """
    outcome, detail = convert_case(Case(*case), converter, opset)
    return outcome, detail[:300]


def convert_case(case: Case, converter: str, opset: int) -> Tuple[str, str]:
    """Convert a case with a converter to an opset, check the result and run it. Return (outcome, detail).

    The outcome is UNTYPED if the case cannot be judged: the opset lacks a type of its inputs or outputs, the source is
    invalid, or nothing runs the source right.
    """
    source = onnx.load(str(case.model))
    missing = missing_type(source, opset)
    if missing is not None:
        return UNTYPED, missing
    try:
        result = _BY[converter](source, opset)
    except Exception as error:  # noqa: BLE001 (each converter has errors of its own)
        return REFUSED, describe_refusal(error)
    versions = {entry.domain: entry.version for entry in result.opset_import}
    if versions.get("", versions.get("ai.onnx", opset)) != opset:
        return REFUSED, "the result has opset %s" % versions
    try:
        onnx.checker.check_model(result)
        onnx.shape_inference.infer_shapes(result, strict_mode=True)
    except Exception as error:  # noqa: BLE001 (its errors have no common base)
        if not is_valid(onnx.load(str(case.model))):
            return UNTYPED, "the source is invalid"
        return INVALID, str(error)
    return run(case, result)


def describe_refusal(error: Exception) -> str:
    """Return an error of a converter as text. It begins with the refused operator, or else with the error's class."""
    subject = getattr(error, "operator", None) or type(error).__name__
    return "%s: %s" % (subject, getattr(error, "reason", error))


def is_valid(model: Model) -> bool:
    """Whether onnx.checker and shape inference accept a model."""
    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return True


def run(case: Case, result: Model) -> Tuple[str, str]:
    """Run the converted model of a case, and compare its outputs with the recorded outputs. Return (outcome, detail).

    onnxruntime runs it, or the reference evaluator of onnx if onnxruntime fails. Outputs that differ from the recorded
    ones are also RIGHT if onnxruntime gives them for the source too.
    """
    try:
        problem = differences(case, onnxruntime_of(result))
    except Exception as error:  # noqa: BLE001 (onnxruntime raises subclasses of several bases)
        refusal = str(error)
    else:
        return (RIGHT, "") if problem is None or has_same_outputs(case, result) else (WRONG, problem)
    try:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(result)
        problem = differences(case, lambda feed: evaluator.run(None, feed))
    except Exception as error:  # noqa: BLE001 (the evaluator raises anything)
        return NOT_RUN, "%s; reference evaluator: %s" % (refusal[:200], error)
    if problem is not None and not runs_by_reference(case):
        return UNTYPED, "nothing runs the source right"
    return (BY_REFERENCE, refusal) if problem is None else (WRONG, problem)


def runs_by_reference(case: Case) -> bool:
    """Whether the reference evaluator of onnx gives the recorded outputs for the unconverted model of a case."""
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(onnx.load(str(case.model)))
        return differences(case, lambda feed: evaluator.run(None, feed)) is None
    except Exception:  # noqa: BLE001 (the evaluator raises anything)
        return False


def has_same_outputs(case: Case, result: Model) -> bool:
    """Whether onnxruntime gives the same outputs for the converted model `result` and for the model of the case.

    If so, differences from the recorded outputs come from the kernels of onnxruntime, not from the conversion. The
    result is False if onnxruntime does not run one of the models.
    """
    try:
        run_source, run_result = onnxruntime_of(onnx.load(str(case.model))), onnxruntime_of(result)
        for data in case.data_sets():
            for got, wanted in zip(run_result(data.inputs), run_source(data.inputs)):
                compare("output", plain(got), plain(wanted), case.rtol, 1e-5)
    except Exception:  # noqa: BLE001 (onnxruntime may refuse the source)
        return False
    return True


def onnxruntime_of(model: Model) -> Run:
    """Return a function that runs a model in onnxruntime: inputs by name -> list of outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {port.name for port in session.get_inputs()}
    return lambda feed: session.run(None, {name: value for name, value in feed.items() if name in names})


def differences(case: Case, run_model: Run) -> Optional[str]:
    """Return how the outputs of a model differ from the recorded outputs of a case, as text; None if they agree.

    `run_model`: a function that runs the model: inputs by name -> list of outputs. Its errors are not caught.
    """
    for data in case.data_sets():
        outputs = [plain(value) for value in run_model(data.inputs)]
        try:
            for output, (name, wanted) in zip(outputs, data.outputs.items()):
                got = as_recorded(output, wanted)
                if "random" in case.tags and isinstance(wanted, np.ndarray):
                    compare_kind(name, got, wanted)
                else:
                    rtol = max(case.rtol, COARSE) if name in data.coarse else case.rtol
                    compare(name, got, wanted, rtol, max(case.atol, 1e-5 if is_coarse(wanted) else 0.0))
        except AssertionError as error:
            return str(error)
    return None


def as_recorded(got: Any, wanted: Any) -> Any:
    """Return `got`, viewed in the dtype of `wanted` if `got` is uint8 and `wanted` is of 8-bit floats.

    onnxruntime returns floats of eight bits as uint8.
    """
    if isinstance(got, np.ndarray) and got.dtype == np.uint8 and wanted.dtype.name.startswith("float8"):
        return got.view(wanted.dtype)
    return got


def is_coarse(wanted: Any) -> bool:
    """Whether a recorded output is an array of floats. Their rounding depends on the order of the additions."""
    return isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f"


def missing_type(model: Model, opset: int) -> Optional[str]:
    """Return the first type of the inputs and outputs of a model that Identity lacks in an opset; None if it has all.

    In opsets 11 to 13, a sequence counts as present if the type of its elements is.
    """
    identity = onnx.defs.get_schema("Identity", opset)
    has = set(identity.inputs[0].types)
    for port in [*model.graph.input, *model.graph.output]:
        kind = type_text(port.type)
        is_known = kind in has or (opset < 14 and opset >= 11 and kind.replace("seq(", "").rstrip(")") + ")" in has)
        if not is_known:
            return kind
    return None


def type_text(kind: Any) -> str:
    """Return a TypeProto as text, as schemas have it: tensor(float), seq(tensor(int64))."""
    name = kind.WhichOneof("value")
    if name == "tensor_type":
        return "tensor(%s)" % onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type).lower()
    if name in ("sequence_type", "optional_type"):
        return "%s(%s)" % ({"sequence_type": "seq"}.get(name, "optional"), type_text(getattr(kind, name).elem_type))
    return str(name)
