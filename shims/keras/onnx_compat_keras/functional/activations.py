"""Rewrite composed activations of a recorded program as single activations, for which Keras has a layer.

    mul(mul(x, 0.5), add(erf(mul(x, 0.7071)), 1))  =>  activation(x, name="gelu")

Conditions: a result of the shape of x, of a float dtype that numpy has, and Keras has the activation. Bodies of loops
and branches are not rewritten.
"""

from typing import Callable, Dict, Optional, Sequence

import keras

from onnx_compat.passes import Replacement, rewrite_region
from onnx_compat.primitives import Application, rule
from onnx_compat.shim import Node, Region, Spec
from onnx_compat.shim import activation_matches as matches

__all__ = ["with_activations"]

_FINDERS: Sequence[Callable[[Node], matches.Match]] = (
    matches.match_hard_swish,
    matches.match_hard_sigmoid,
    matches.match_gelu,
    matches.match_elu,
    matches.match_mish,
    matches.match_softplus,
    matches.match_softsign,
    matches.match_swish,
)
#: Activation of `activation_matches` -> its name in `keras.activations`, if it has another.
_NAMES: Dict[str, str] = {"hard_swish": "hard_silu", "swish": "silu"}


def with_activations(region: Region) -> Region:
    """Return a copy of the region in which single activations replace composed ones; the region itself without any."""
    return rewrite_region(region, _find)[0]


@rule("activation")
def _activation_rule(application: Application) -> Sequence[Spec]:
    """Infer the type of an activation's single result, as a list: dtype and shape of the first argument."""
    return [application.spec(0)]


def _find(node: Node) -> Optional[Replacement]:
    """Return the `Replacement` of the last node of a composed activation: a node of the single activation.

    Returns None in these cases:

    - The node is not the last node of a composition in `_FINDERS`.
    - The node has several results, or a result whose dtype is no float that numpy has.
    - The type of the result differs from the type of the activation's argument.
    - Keras lacks the activation.
    """
    if len(node.outputs) != 1 or node.outputs[0].spec.dtype.kind != "f" or not node.outputs[0].spec.dtype.native:
        return None
    for find in _FINDERS:
        match = find(node)
        if match is not None and match[1][0].spec == node.outputs[0].spec:
            kind, args, params = match
            name = _NAMES.get(kind, kind)
            if hasattr(keras.activations, name):
                return Replacement("activation", args, {"kind": name, **params})
    return None
