"""Every value in between beside the one that an oracle has, and which node is the first to depart.

A value may depart because errors before it have added up. So a node whose value departs is run once more by itself, from
exact inputs: the first that departs then too is wrong.
"""

import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.model import Model
from onnx_compat.verification.compare import Comparison
from onnx_compat.verification.intermediate_values import InBundle, InFile, OnShim, exact
from onnx_compat.verification.missing_values import Fate, Gone

__all__ = ["Comparing", "Layer", "Layers", "Subject", "examine_layers"]


class Layer(NamedTuple):
    """A value that a node makes. `nodes`: the node, and those before it whose own values the file does not hold."""

    value: str
    node: str
    operator: str
    comparison: Comparison
    snr: Optional[float]  # in dB: the expected value's power over the error's; infinite if equal
    nodes: Tuple[str, ...] = ()
    emitted: Tuple[str, ...] = ()  # the operators of the file that compute it
    alone: Optional[Comparison] = None  # from exact inputs; only found out for some that depart

    @property
    def ok(self) -> bool:
        return self.comparison.ok


class Layers(NamedTuple):
    layers: List[Layer]
    gone: List[Gone]
    culprit: Optional[str]  # the node that departs by itself; of those that cannot run by itself the first that departs
    verdict: str
    notes: List[str]

    @property
    def ok(self) -> bool:
        return all(layer.ok for layer in self.layers)


Subject = Union[OnShim, InFile, InBundle]
#: Of a name, what was got and what is wanted: a comparison, or one for each item of a sequence.
Comparing = Callable[[str, Any, Any], Iterator[Comparison]]


def examine_layers(
    model: Model, inputs: Dict[str, Any], subject: Subject, oracle: Optional[str], comparing: Comparing
) -> Layers:
    expected, answer = exact(model, inputs, oracle)
    found = subject.values(inputs, expected)
    for name, value in inputs.items():  # as an input of a node by itself it is laid out as the file has it
        if name in found:
            subject.aligned(name, found[name], value)
    fate = Fate(model, set(found))
    layers = []
    for node in model.graph.nodes:
        for name in node.outputs:
            if name in found and name in expected:
                got, want = subject.aligned(name, found.pop(name), expected[name]), expected[name]
                comparison = _one(name, list(comparing(name, got, want)))
                parts = tuple(fate.stands_for(node)), tuple(subject.emitted.get(name, ()))
                layers.append(Layer(name, node.name, node.operator, comparison, _snr(got, want), *parts))
    culprit, verdict = _accuse(layers, model, subject, expected, comparing)
    return Layers(layers, fate.gone, culprit, verdict, [*answer.notes, *subject.notes, *_not_entered(model)])


def _not_entered(model: Model) -> List[str]:
    """What is not looked at, as a note: the nodes of bodies make values only while their own node runs."""
    closed = ["'%s' (%s)" % (node.name, node.operator) for node in model.graph.nodes if any(node.subgraphs())]
    if not closed:
        return []
    return ["only the results of %s are compared: the nodes in the bodies are not looked at" % ", ".join(closed)]


def _accuse(
    layers: List[Layer], model: Model, subject: Subject, expected: Dict[str, Any], comparing: Comparing
) -> Tuple[Optional[str], str]:
    """The first node that departs by itself, and a sentence; `layers` gets what was found out."""
    nodes = {node.name: node for node in model.graph.nodes}
    departing = [place for place, layer in enumerate(layers) if not layer.ok]
    if not departing:
        return None, "all %d values of nodes agree" % len(layers) if layers else _NOTHING
    first = layers[departing[0]]
    for place in departing:
        layer = layers[place]
        try:
            want = expected[layer.value]
            got = subject.aligned(layer.value, subject.alone(nodes[layer.node], expected)[layer.value], want)
            again = _one(layer.value, list(comparing(layer.value, got, want)))
        except OnnxCompatError as error:
            return layer.node, "%s; it cannot be run by itself: %s" % (_departs(layer), error.reason)
        layer = layers[place] = layer._replace(alone=again)
        if not again.ok:
            before = "" if layer.value == first.value else " (before it '%s' departs, but not by itself)" % first.node
            return layer.node, "%s, and so it does by itself, from exact inputs%s" % (_departs(layer), before)
    return None, "%s, but none of the %d that depart does so by itself, from exact inputs: small errors have added up" % (
        _departs(first), len(departing),
    )  # fmt: skip


_NOTHING = "no value in between can be compared: nothing in it bears the name of a value of the model"


def _departs(layer: Layer) -> str:
    others = "" if len(layer.nodes) < 2 else " (with %s)" % ", ".join(map(repr, layer.nodes[1:]))
    error = layer.comparison.max_abs_error
    size = layer.comparison.verdict if error is None else "max abs error %.3g" % error
    return "the first node that departs is '%s', %s%s: its value '%s', %s" % (
        layer.node, layer.operator, others, layer.value, size,
    )  # fmt: skip


def _one(name: str, parts: List[Comparison]) -> Comparison:
    """Of a sequence's items the first that does not match, else the first."""
    return next((part for part in parts if not part.ok), parts[0])._replace(name=name)


def _snr(got: Any, want: Any) -> Optional[float]:
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray) or got.shape != want.shape:
        return None
    if want.dtype.kind not in "fiu" or got.dtype.kind not in "fiu" or not want.size:
        return None
    a, b = got.astype(np.float64), want.astype(np.float64)
    known = np.isfinite(b) & np.isfinite(a)
    with np.errstate(all="ignore"):
        signal, noise = float(np.square(b[known]).sum()), float(np.square((a - b)[known]).sum())
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
