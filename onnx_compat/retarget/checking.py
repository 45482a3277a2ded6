"""Check a written model: by onnx.checker and shape inference, and by running it beside its source."""

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from onnx_compat.errors import ConversionError, OnnxCompatError
from onnx_compat.model import Model
from onnx_compat.retarget.external_weights import move_weights
from onnx_compat.retarget.payloads import is_marked
from onnx_compat.retarget.stand_ins import MAIN, stored_tensors
from onnx_compat.retarget.weightless_model import WeightlessModel

if TYPE_CHECKING:
    import onnx

__all__ = ["check_form", "compare_with_source"]

#: A model with more bytes of large weights runs in a child process.
_LARGE_MODEL = 1 << 26
_REPORT = "this is a defect of onnx-compat: please report it with the model"


def check_form(result: "onnx.ModelProto", source: "onnx.ModelProto") -> List[str]:
    """Check a written model by onnx.checker and by strict shape inference. Return notes for the plan.

    - result: the written model, without its large weights.
    - source: the model that was converted, without its large weights.

    The list is empty if the result passes. It has a note if both models fail. Raises ConversionError if only the result
    fails.
    """
    problem = _problem_of(result)
    if problem is None:
        return []
    source_problem = _problem_of(source)
    if source_problem is None:
        raise ConversionError("onnx.checker refuses the written model: %s" % problem, hint=_REPORT)
    return ["onnx.checker refuses the source, and the written model too: %s" % source_problem]


def _problem_of(model: "onnx.ModelProto") -> Optional[str]:
    """Return the first line of the error of onnx.checker or strict shape inference. None if both accept the model."""
    import onnx

    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except Exception as error:  # noqa: BLE001 (its errors have no common base)
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return None


def compare_with_source(
    source: Tuple[WeightlessModel, Model], result: Tuple[WeightlessModel, Model], values: Dict[str, Any], folder: str
) -> List[str]:
    """Run both models with the same generated inputs, and compare their outputs. Return notes for the plan.

    - source, result: (the model as a `WeightlessModel`, the model as `load` returns it). `Model.source` is what the
      model was read from.
    - values: input name -> value, for the inputs of the source that the result no longer has.
    - folder: an existing folder for temporary files.

    A note says why the models are not compared, or that the reference ran the result. They are not compared if the
    source draws random numbers or does not run. Raises ConversionError if the result does not run, or if an output
    differs.
    """
    from onnx_compat.verification.generate import generate
    from onnx_compat.verification.oracle import run_oracle

    if _draws_random_numbers(source[1]):
        return ["not run beside the source: the model draws random numbers"]
    is_large = [weightless_model.count_weight_bytes() > _LARGE_MODEL for weightless_model in (source[0], result[0])]
    try:
        feed = generate(result[1].inputs)
        model = _runnable(*source, os.path.join(folder, "source")) if is_large[0] else source[1]
        expected = run_oracle(model, dict(feed, **values), None, in_child=is_large[0])
    except OnnxCompatError as error:
        return ["not run beside the source, which does not run on generated inputs: %s" % error.reason]
    try:
        model = _runnable(*result, os.path.join(folder, "result")) if is_large[1] else result[1]
        actual = run_oracle(model, feed, None, in_child=is_large[1])
    except OnnxCompatError as error:
        raise ConversionError("the written model does not run: %s" % error.reason, hint=_REPORT) from error
    _compare(result[1], actual.outputs, expected.outputs)
    return actual.notes


def _runnable(weightless_model: WeightlessModel, model: Model, folder: str) -> Model:
    """Return a Model whose source is a file that onnxruntime loads without a second copy of the weights.

    - `model` itself, if its source is a path and all its large weights are initializers of the main graph.
    - Otherwise a copy, which is written to the new folder `folder` with external data.

    onnxruntime 1.31 copies the weights of Constant nodes, and bytes in memory, but maps external data.
    """
    storages = {storage for tensor, storage in stored_tensors(weightless_model.proto) if is_marked(tensor)}
    if isinstance(model.source, str) and storages <= {MAIN}:
        return model
    os.mkdir(folder)
    copy = weightless_model.copy()
    move_weights(copy, os.path.join(folder, "weights"), constants=True)
    path = os.path.join(folder, "model.onnx")
    copy.write(path)
    runnable = model.with_graph(model.graph)
    runnable.source = path
    return runnable


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
    """Raise ConversionError if an output in `actual` differs from that in `expected`. Otherwise do nothing.

    Both lists have the order of the outputs of `result`. A model with quantizing nodes may differ more than another
    model.
    """
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
