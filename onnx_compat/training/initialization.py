"""Run the initializations of a model on the reference."""

import zlib
from typing import TYPE_CHECKING, Dict

import numpy as np

from onnx_compat.execution.prepare import prepare
from onnx_compat.model.protos import walk
from onnx_compat.training.parts import build_initializations
from onnx_compat.training.training_info import TrainingInfo

if TYPE_CHECKING:
    import onnx

__all__ = ["initial_states"]

_RANDOM = frozenset(
    ["RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Multinomial", "Bernoulli"]
)


def initial_states(info: TrainingInfo, seed: int) -> Dict[str, np.ndarray]:
    """Return state -> array, for the states that the initializations assign to.

    `seed`: the seed of random operators that have none. Each of them draws other numbers. A later entry replaces the
    value of an earlier one. Raises the errors of `prepare` and `run`.
    """
    states: Dict[str, np.ndarray] = {}
    for bindings, model in build_initializations(info):
        _set_seeds(model, seed)
        outputs = prepare(model, "reference").run({})
        states.update((state, np.asarray(outputs[output])) for state, output in bindings.items())
    return states


def _set_seeds(model: "onnx.ModelProto", seed: int) -> None:
    """Give each random node of the graph without a seed a seed of its own, in place. It follows from its output."""
    import onnx

    for node in walk(model.graph.node):
        if node.op_type in _RANDOM and not any(attribute.name == "seed" for attribute in node.attribute):
            number = zlib.crc32(("%d/%s" % (seed, node.output[0])).encode("utf-8")) % (1 << 23)
            node.attribute.append(onnx.helper.make_attribute("seed", float(number)))
