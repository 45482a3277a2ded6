"""Compare the value of every node with the oracle's value, and find the first node that departs.

A value may depart because the errors of earlier nodes add up. A node whose value departs therefore runs again by
itself, from the exact values of its inputs. The first node that departs again is the culprit.
"""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.model import Model
from onnx_compat.verification.accuracy import signal_to_noise
from onnx_compat.verification.compare import WRONG_TYPE, Comparison, OutputValue, format_verdict
from onnx_compat.verification.intermediate_values import InBundle, InFile, OnShim, expected_values
from onnx_compat.verification.missing_values import MissingValue, MissingValues

__all__ = ["Comparing", "Layer", "Layers", "Subject", "examine_layers"]


class Layer(NamedTuple):
    """The comparison of one output value of a node with the oracle's value.

    `value` and `node` are names, and `operator` is the ONNX operator. `nodes`: the name of the node, then the names of
    the nodes that the file computes together with it (fused nodes).
    """

    value: str
    node: str
    operator: str
    comparison: Comparison
    snr: Optional[float]  # the signal-to-noise ratio in dB; infinite if the values are equal
    nodes: Tuple[str, ...] = ()
    emitted: Tuple[str, ...] = ()  # the operators of the file that compute the value
    alone: Optional[Comparison] = None  # the comparison from exact inputs, if the node ran by itself

    @property
    def ok(self) -> bool:
        """Return whether the value agrees with the oracle's value."""
        return self.comparison.ok


class Layers(NamedTuple):
    """The comparison of every node of a model: a layer for each output value that could be compared.

    `gone`: the values that a file does not hold. `culprit`: the name of a node, or None. `verdict`: a text about the
    culprit.
    """

    layers: List[Layer]
    gone: List[MissingValue]
    culprit: Optional[str]  # the first node that departs by itself, or that departs and cannot run by itself
    verdict: str
    notes: List[str]

    @property
    def ok(self) -> bool:
        """Return whether every compared value agrees; True without layers."""
        return all(layer.ok for layer in self.layers)


Subject = Union[OnShim, InFile, InBundle]
#: Name, value and expected value -> a comparison; for a sequence, a comparison of each item.
Comparing = Callable[[str, Any, Any], Iterator[Comparison]]


def examine_layers(
    model: Model, inputs: Dict[str, Any], subject: Subject, oracle: Optional[str], comparing: Comparing
) -> Layers:
    """Compare the values of all nodes of a subject with the oracle's values, and find the culprit. Return `Layers`.

    Values that the subject does not hold are listed in `Layers.gone`. `oracle`: as for `verify`. `comparing`: see
    `Comparing`. A sequence has a single layer: its first element that differs, else its first element.
    """
    expected, answer = expected_values(model, inputs, oracle)
    values = subject.values(inputs, expected)
    for name, value in inputs.items():  # so that the subject knows the axis order of inputs when a node runs by itself
        if name in values:
            subject.align(name, values[name], value)
    missing = MissingValues(model, set(values))
    layers = []
    for node in model.graph.nodes:
        for name in node.outputs:
            if name in values and name in expected:
                got, want = subject.align(name, values.pop(name), expected[name]), expected[name]
                comparison = _first_mismatch(name, list(comparing(name, got, want)))
                origin = tuple(missing.fused_nodes(node)), tuple(subject.emitted.get(name, ()))
                layers.append(Layer(name, node.name, node.operator, comparison, _snr(got, want), *origin))
    culprit, verdict = _find_culprit(layers, model, subject, expected, comparing)
    notes = [*answer.notes, *subject.notes, *_subgraph_notes(model), *_unnamed_notes(model, layers, missing.gone)]
    return Layers(layers, missing.gone, culprit, verdict, notes)


def _unnamed_notes(model: Model, layers: List[Layer], gone: List[MissingValue]) -> List[str]:
    """Return a list with a note if only outputs of the model were compared, and a value in `gone` was fused.

    Otherwise return an empty list.
    """
    outputs = {port.name for port in model.graph.outputs}
    if not layers or any(layer.value not in outputs for layer in layers):
        return []
    fused = [value for value in gone if value.why.startswith("fused")]
    return ["only the outputs could be compared: the file names no other tensor of the model"] if fused else []


def _subgraph_notes(model: Model) -> List[str]:
    """Return a list with a note on the nodes with subgraphs (If, Loop, Scan); an empty list without such nodes.

    The values inside a subgraph exist only while its node runs, so they are not compared.
    """
    control_flow = ["'%s' (%s)" % (node.name, node.operator) for node in model.graph.nodes if any(node.subgraphs())]
    if not control_flow:
        return []
    names = ", ".join(control_flow)
    return ["only the results of %s are compared: the values of nodes in their bodies are not compared" % names]


def _find_culprit(
    layers: List[Layer], model: Model, subject: Subject, expected: Dict[str, Any], comparing: Comparing
) -> Tuple[Optional[str], str]:
    """Run each departing node by itself, in order, until a node departs again or cannot run: the culprit.

    Return (the name of that node, the verdict as text); (None, the verdict) without such a node. The comparison of each
    single run replaces the field `alone` of the layer in `layers`.
    """
    nodes = {node.name: node for node in model.graph.nodes}
    departing = [index for index, layer in enumerate(layers) if not layer.ok]
    if not departing:
        agreement = (
            "the only value that could be compared agrees"
            if len(layers) == 1
            else "all %d values of nodes agree" % len(layers)
        )
        return None, agreement if layers else _NO_VALUES
    first = layers[departing[0]]
    for index in departing:
        layer = layers[index]
        try:
            want = expected[layer.value]
            got = subject.align(layer.value, subject.alone(nodes[layer.node], expected)[layer.value], want)
            comparison = _first_mismatch(layer.value, list(comparing(layer.value, got, want)))
        except OnnxCompatError as error:
            text = "%s; the reason: %s" % (_describe_mismatch(layer, " and cannot run by itself"), error.reason)
            return layer.node, _place_culprit(text, layers, departing, index)
        layer = layers[index] = layer._replace(alone=comparison)
        if not comparison.ok:
            text = _describe_mismatch(layer, " by itself, from exact inputs,")
            return layer.node, _place_culprit(text, layers, departing, index)
    counted = "it does not depart" if len(departing) == 1 else "none of the %d that depart does so" % len(departing)
    return None, "%s, but %s by itself, from exact inputs: small errors have added up" % (
        _describe_mismatch(first), counted,
    )  # fmt: skip


_NO_VALUES = "no intermediate value can be compared: no tensor of the file has the name of a value of the model"


def _place_culprit(text: str, layers: List[Layer], departing: List[int], culprit: int) -> str:
    """Return the text of a verdict on a culprit, with remarks on the nodes that depart before and after it.

    `departing`: the positions in `layers` of the values that depart, in order. `culprit`: one of these positions.
    """
    if culprit != departing[0]:
        text += " (before it '%s' departs, but not by itself)" % layers[departing[0]].node
    if culprit != departing[-1]:
        text += "; later nodes may depart only because '%s' does: mend it, and run again" % layers[culprit].node
    return text


def _describe_mismatch(layer: Layer, how: str = "") -> str:
    """Return the text "the first node that departs<how> is …" for a layer: its node, its value and the error."""
    fused = "" if len(layer.nodes) < 2 else " (with %s)" % ", ".join(map(repr, layer.nodes[1:]))
    error = layer.comparison.max_abs_error
    size = "" if error is None else "max abs error %.3g" % error
    if layer.comparison.verdict in WRONG_TYPE:
        got, expected = layer.comparison.shape, layer.comparison.expected_shape
        size = "%s %s%s, expected %s%s" % (
            format_verdict(layer.comparison),
            layer.comparison.dtype,
            list(got),
            layer.comparison.expected_dtype,
            list(expected),
        )
    return "the first node that departs%s is '%s', %s%s: its value '%s', %s" % (
        how, layer.node, layer.operator, fused, layer.value, size or format_verdict(layer.comparison),
    )  # fmt: skip


def _first_mismatch(name: str, items: List[Comparison]) -> Comparison:
    """Return the first comparison that fails, else the first comparison, renamed to `name`.

    `items`, which is not empty, has the comparisons of one value: one for a tensor, one for each element of a sequence.
    """
    return next((item for item in items if not item.ok), items[0])._replace(name=name)


def _snr(got: OutputValue, want: OutputValue) -> Optional[float]:
    """Return the signal-to-noise ratio in dB. Only elements that are finite in both values count.

    - These elements are equal, or no element is finite in both values: infinity.
    - These elements differ, and all of them are 0 in `want`: -infinity.
    - The values are no arrays of one shape, have no elements, or have a dtype other than integer or float: None.
    """
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray) or got.shape != want.shape:
        return None
    if want.dtype.kind not in "fiu" or got.dtype.kind not in "fiu" or not want.size:
        return None
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b) & np.isfinite(a)
    return signal_to_noise(a[finite], b[finite])
