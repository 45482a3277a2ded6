"""Run passes that simplify models, and run models before and after."""

from typing import Any, List, Tuple

import numpy as np

import onnx_compat
from onnx_compat.passes import leaving_out
from onnx_compat.simplify import SCHEDULE, ModelPass, simplify


def run_pass(pass_: ModelPass, model: Any) -> Tuple[Any, int]:
    """Run a pass alone. Return the model, and the number of rewrites."""
    with leaving_out([left_out.name for left_out in SCHEDULE.distinct if left_out is not pass_]):
        simplified, report = simplify(model)
    return simplified, sum(entry.rewrites for entry in report.passes)


def outputs_of(model: Any, batch: int = 3) -> List[Any]:
    """Return the outputs of a model for random numbers, from the reference. An open size is `batch`."""
    generator = np.random.RandomState(0)
    stored = {tensor.name for tensor in model.graph.initializer}
    feed = {}
    for port in model.graph.input:
        if port.name not in stored:
            shape = [dim.dim_value or batch for dim in port.type.tensor_type.shape.dim]
            feed[port.name] = generator.standard_normal(shape).astype(np.float32)
    return list(onnx_compat.prepare(model, shim="reference").run(feed))
