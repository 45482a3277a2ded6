"""Check a written model: by onnx.checker and shape inference, and by running it beside its source."""

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from onnx_compat.errors import ConversionError, OnnxCompatError
from onnx_compat.model import Model

if TYPE_CHECKING:
    import onnx

__all__ = ["check_form", "compare_with_source"]

_REPORT = "this is a defect of onnx-compat: please report it with the model"


def check_form(result: "onnx.ModelProto", source: "onnx.ModelProto") -> List[str]:
    """Check a model by onnx.checker, with strict shape inference. Neither model has large weights.

    Return a note if it fails, and the source fails too. Raises ConversionError if only the result fails.
    """
    problem = _problem_of(result)
    if problem is None:
        return []
    source_problem = _problem_of(source)
    if source_problem is None:
        raise ConversionError("onnx.checker refuses the written model: %s" % problem, hint=_REPORT)
    return ["onnx.checker refuses the source, and the written model too: %s" % source_problem]


def _problem_of(model: "onnx.ModelProto") -> Optional[str]:
    """Return the first line of the error of onnx.checker; None if it accepts the model."""
    import onnx

    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except Exception as error:  # noqa: BLE001 (its errors have no common base)
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return None


def compare_with_source(source: Model, result: Model, values: Dict[str, Any]) -> List[str]:
    """Run both models with the same generated inputs, and compare their outputs.

    `values`: the inputs of the source that the result no longer has. Return notes: why the models could not be compared,
    or that the result is run by the reference. Raises ConversionError if the result does not run, or differs.
    """
    from onnx_compat.verification.generate import generate
    from onnx_compat.verification.oracle import run_oracle

    if _draws_random_numbers(source):
        return ["not run beside the source: the model draws random numbers"]
    try:
        feed = generate(result.inputs)
        expected = run_oracle(source, dict(feed, **values), None)
    except OnnxCompatError as error:
        return ["not run beside the source, which does not run on generated inputs: %s" % error.reason]
    try:
        actual = run_oracle(result, feed, None)
    except OnnxCompatError as error:
        raise ConversionError("the written model does not run: %s" % error.reason, hint=_REPORT) from error
    _compare(result, actual.outputs, expected.outputs)
    return actual.notes


def _draws_random_numbers(model: Model) -> bool:
    """Whether a node of the model draws random numbers. A Dropout counts only if it may train."""
    operators = ("Bernoulli", "Multinomial", "RandomNormal", "RandomUniform")
    return any(
        node.operator.startswith(operators)
        or (
            node.operator == "Dropout"
            and (len(node.inputs) > 2 or (node.opset < 7 and not node.attributes.get("is_test")))
        )
        for node in model.graph.walk()
    )


def _compare(result: Model, actual: List[Any], expected: List[Any]) -> None:
    from onnx_compat.verification.criterion import choose_criterion
    from onnx_compat.verification.quantizing_nodes import quantizing_nodes

    criterion = choose_criterion(None, None, None, bool(quantizing_nodes(result)), None)
    pairs: List[Tuple[str, Any, Any]] = [
        (port.name, got, want) for port, got, want in zip(result.outputs, actual, expected)
    ]
    for name, got, want in pairs:
        for comparison in criterion.compare(name, got, want):
            if not comparison.ok:
                raise ConversionError(
                    "the output '%s' of the written model differs from the source: %s" % (name, comparison.verdict),
                    hint=_REPORT + "; --no-verify (verify=False) writes it nevertheless",
                )
