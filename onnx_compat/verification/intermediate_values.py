"""Compute the intermediate values of a model: on an oracle, on a shim, and inside a converted file or bundle.

`OnShim`, `InFile` and `InBundle` are subjects of a verification, with three methods. `values` runs the whole model and
returns the value of every node. `alone` runs a single node from the expected values of its inputs. `align` converts a
value to the axis order and the dtype of the model.
"""

import itertools
import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.conversion.bundle import Bundle
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, OnnxCompatError, UnsupportedError
from onnx_compat.ir.dtypes import from_public
from onnx_compat.model import Graph, GraphNode, Model, SequenceType, TensorType, Type, ValueInfo
from onnx_compat.model.write import extract
from onnx_compat.shim.description import OpenedFile, steps_between
from onnx_compat.verification.compare import OutputValue
from onnx_compat.verification.converted_file import flatten_sequences, match_format
from onnx_compat.verification.oracle import Answer, run_oracle
from onnx_compat.verification.quantizing_nodes import quantizing_nodes

__all__ = ["InBundle", "InFile", "OnShim", "expected_values"]

Values = Dict[str, Any]


def expected_values(model: Model, inputs: Values, oracle: Optional[str]) -> Tuple[Values, Answer]:
    """Run the model on the oracle. Return (values by name, the oracle's answer).

    The values are the inputs, and the outputs of every node. The answer's `outputs` are the outputs of every node too.
    `oracle` is as for `run_oracle`, which raises the errors. onnxruntime runs a model that quantises as it runs without
    its optimisations.
    """
    exposed = _expose_all_values(model)
    answer = run_oracle(exposed, inputs, oracle, optimised=not quantizing_nodes(model))
    return {**inputs, **dict(zip((port.name for port in exposed.outputs), answer.outputs))}, answer


class _LazyProto:
    """A stand-in for the onnx.ModelProto of a model.

    The model is serialized only when onnxruntime requests the bytes.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def SerializeToString(self) -> bytes:  # noqa: N802 (the name of the method of onnx.ModelProto)
        """Return the serialized model as bytes."""
        graph = self._model.graph
        content: bytes = extract(self._model, graph.nodes, graph.inputs, graph.outputs).SerializeToString()
        return content


def _submodel(
    model: Model, inputs: Sequence[ValueInfo], nodes: Sequence[GraphNode], outputs: Sequence[ValueInfo]
) -> Model:
    """Return a new model of the nodes `nodes` of a model, with the given inputs and outputs.

    An initializer is left out if it has the name of a new input, and `model` does not have this input itself.
    """
    graph = model.graph
    new_inputs = {port.name for port in inputs} - {port.name for port in graph.inputs}
    initializers = {name: stored for name, stored in graph.initializers.items() if name not in new_inputs}
    subgraph = Graph(graph.name, inputs, outputs, nodes, initializers, graph.value_info)
    submodel = Model(subgraph, model.opsets, model.ir_version, model.path, model.functions)
    submodel.source = _LazyProto(submodel)
    return submodel


def _expose_all_values(model: Model) -> Model:
    """Return a new model with the same nodes, whose outputs are all named outputs of its nodes, in node order."""
    graph = model.graph
    types = {port.name: port.type for port in graph.outputs}
    names = dict.fromkeys(name for node in graph.nodes for name in node.outputs if name)
    return _submodel(model, graph.inputs, graph.nodes, [ValueInfo(name, types.get(name)) for name in names])


class OnShim:
    """A model on a shim, as a subject. Every node's value is an output of the model, so no nodes are fused."""

    def __init__(self, model: Model, shim: str) -> None:
        self.model = model
        self.shim = shim
        self.notes: List[str] = []
        #: Empty, because it is unknown which operators of the shim compute a value; see `InFile.emitted`.
        self.emitted: Dict[str, Tuple[str, ...]] = {}

    def values(self, inputs: Values, expected: Values) -> Values:
        """Run the model on the shim and return the value of every node by name.

        If the whole model does not run, each node runs alone, from the expected values, and `notes` gets a note. A node
        that does not run alone is left out, with a note too.
        """
        from onnx_compat import prepare

        exposed = _expose_all_values(self.model)
        try:
            results = prepare(exposed, shim=self.shim).run(inputs)
            return dict(zip((port.name for port in exposed.outputs), results))
        except OnnxCompatError as error:
            self.notes.append(
                "each node ran by itself, from exact inputs, because the model does not run with every value as an output: %s"
                % error.reason
            )
        values: Values = {}
        for node in self.model.graph.nodes:
            try:
                values.update(self.alone(node, expected))
            except OnnxCompatError as error:
                self.notes.append("'%s' does not run by itself: %s" % (node.name, error.reason))
        return values

    def alone(self, node: GraphNode, expected: Values) -> Values:
        """Run a single node on the shim, from the expected values of its inputs; return its outputs by name."""
        from onnx_compat import prepare

        graph = self.model.graph
        names = dict.fromkeys(name for name in (*node.inputs, *node.captures()) if name)
        feeds = {name: expected[name] for name in names if name in expected}
        inputs = [ValueInfo(name, _type_of(value)) for name, value in feeds.items()]
        outputs = [ValueInfo(name, graph.value_info.get(name)) for name in node.outputs if name]
        results = prepare(_submodel(self.model, inputs, [node], outputs), shim=self.shim).run(feeds)
        return dict(zip((port.name for port in outputs), results))

    def align(self, name: str, got: OutputValue, want: OutputValue) -> OutputValue:
        """Return `got` unchanged: a shim returns values in the axis order of the model."""
        return got


def _type_of(value: OutputValue) -> Optional[Type]:
    """Return the ONNX type of a tensor, or of a sequence (with the type of its first element); None for None."""
    if isinstance(value, (list, tuple)):
        return SequenceType(_type_of(value[0]) if value else None)
    return None if value is None else TensorType(from_public(value)[1], tuple(np.shape(value)))


class InBundle:
    """A bundle, as a subject. Its values are the outputs of its parts; values inside a part are unknown."""

    notes = ["only the outputs of the parts of the bundle are compared, not the values inside a part"]

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.emitted = {
            name: ("%s (%s)" % (part.path, "the fallback" if part.kind == "onnx" else part.kind),)
            for part in bundle.manifest.parts
            for name in bundle.made_by(part)
        }

    def values(self, inputs: Values, expected: Values) -> Values:
        """Run the bundle and return the inputs of the model and the outputs of all parts by name."""
        return self._bundle.values(inputs)

    def alone(self, node: GraphNode, expected: Values) -> Values:
        """Run the parts that compute outputs of a node, each from expected inputs. Return name -> value.

        An output of the node that no part returns is left out.
        """
        return {name: self._bundle.alone(name, expected) for name in node.outputs if name in self.emitted}

    def align(self, name: str, got: OutputValue, want: OutputValue) -> OutputValue:
        """Return `got` unchanged: the parts exchange values in the axis order of the model."""
        return got


class InFile:
    """A converted file, as a subject. The tensor that has the name of a value of the model holds that value.

    `channels_last`: the names of the inputs that the file has as [N, H, W, C].

    Raises `InputError` if the shim does not read the format of `path`. Raises UnsupportedError if the shim reads the
    format, but not intermediate values (see `Shim.look_inside`).
    """

    def __init__(
        self, model: Model, path: Union[str, "os.PathLike[str]"], shim: str, channels_last: Sequence[str] = ()
    ) -> None:
        self.model = model
        self.shim = shim
        target = Path(os.fspath(path))
        reader = selection.find(shim)
        form = match_format(reader, target)
        if form is None:
            raise InputError("the shim %s does not read '%s'" % (shim, target), hint="check the suffix of the file")
        self._file: OpenedFile = reader.look_inside(str(target), form)
        self.notes = list(self._file.notes)
        #: Value -> for each axis of the model, the axis of the file. An absent value has the order of the model.
        self._orders: Dict[str, Tuple[int, ...]] = {
            port.name: (0, port.type.rank - 1, *range(1, port.type.rank - 1))
            for port in model.inputs
            if port.name in channels_last and isinstance(port.type, TensorType) and port.type.rank is not None
        }
        node_outputs = {name for node in model.graph.nodes for name in node.outputs}
        #: The values of the model that the file holds: outputs of its operators, and inputs.
        self._held = node_outputs & {name for step in self._file.steps for name in step.outputs}
        self._held.update(port.name for port in model.graph.inputs)
        self._steps = steps_between(self._file.steps, self._held)
        #: Value -> the operators of the file that compute it from other values of the model.
        self.emitted = {name: tuple(step.operator for step in steps) for name, steps in self._steps.items()}

    def values(self, inputs: Values, expected: Values) -> Values:
        """Run the file and return the values of the model that the file holds, by name, in the file's axis order.

        `inputs` are in the axis order of the model. `expected` is not used: the method has the parameters of
        `OnShim.values`.
        """
        feeds = {name: self._to_file_order(name, value) for name, value in flatten_sequences(inputs)}
        return {name: value for name, value in self._file.values(feeds).items() if name in self._held}

    def alone(self, node: GraphNode, expected: Values) -> Values:
        """Run only the file's operators that compute the outputs of a node, from expected values.

        Return the node's outputs that the file computes, in the file's axis order, by name. `align` must have been
        called for the values that the operators read, because it finds their axis orders.
        """
        values = {}
        for name in node.outputs:
            if name in self._steps:
                feeds = {source: self._to_file_order(source, expected[source]) for source in self._sources(name)}
                values[name] = self._file.alone(name, feeds)
        return values

    def align(self, name: str, got: OutputValue, want: OutputValue) -> OutputValue:
        """Return the tensor `got` of the file in the axis order and the dtype of `want`, and remember the axis order.

        `name`: the name of the value. Infinities that the runtime replaced are restored (see `_restore_infinities`).
        Strings keep their dtype. If `got` or `want` is no array, `got` is returned unchanged.
        """
        if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
            return got
        if got.dtype != want.dtype and "O" not in (got.dtype.kind, want.dtype.kind):
            got = got.astype(want.dtype)
        order = self._orders[name] = _find_axis_order(got, want)
        return _restore_infinities(got.transpose(order), want)

    def _to_file_order(self, name: str, value: OutputValue) -> np.ndarray:
        """Return a value of the model as an array in the file's order of axes.

        If the file's order is unknown, the array keeps the model's order.

        Raises `UnsupportedError` for a sequence or None.
        """
        array, order = _to_array(value), self._orders.get(name)
        return array if order is None else array.transpose(np.argsort(order))

    def _sources(self, name: str) -> Set[str]:
        """Return the names of the held values of the model that the operators of `name` read, without `name`."""
        inputs = {source for step in self._steps[name] for source in step.inputs}
        return {source for source in inputs if source in self._held and source != name}


def _to_array(value: OutputValue) -> np.ndarray:
    """Return a tensor as its carrier array. Raise `UnsupportedError` for a sequence or None."""
    if value is None or isinstance(value, (list, tuple)):
        raise UnsupportedError(
            "the values inside a file can only be compared for tensors, not for sequences",
            hint="verify without layers (--layers)",
        )
    array: np.ndarray = from_public(value)[0]
    return array


def _restore_infinities(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return `got` with infinities where the runtime computed the largest finite number instead.

    An element is replaced if `want` has an infinity there, and `got` the largest finite number of its dtype and the
    same sign. If `got` is no float array, or if the shapes differ, it is returned unchanged.
    """
    # Older delegates of TFLite saturate: they compute the largest number for an infinity, as in masks.
    if got.dtype.kind != "f" or got.shape != want.shape:
        return got
    is_saturated = np.isinf(want) & (np.abs(got) == np.finfo(got.dtype).max) & (np.sign(got) == np.sign(want))
    return np.where(is_saturated, want, got)


def _find_axis_order(got: np.ndarray, want: np.ndarray) -> Tuple[int, ...]:
    """Return the permutation of the axes that converts the file's tensor `got` to the model's tensor `want`.

    The usual permutations are the identity, channels first and channels last. The one with the smallest error is
    returned. Another permutation is returned if no usual one gives the shape of `want`, or if its error is 1000 times
    smaller.

    The identity is returned for different ranks, a rank below 2 or above 6, and shapes that no permutation makes equal.
    """
    rank = got.ndim
    identity = tuple(range(rank))
    if rank != want.ndim or not 1 < rank <= 6:
        return identity
    usual_orders = [identity, (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)]
    usual, error = _nearest_order(got, want, usual_orders)
    if usual is not None and error == 0:
        return usual
    other_orders = [order for order in itertools.permutations(range(rank)) if order not in usual_orders]
    unusual, unusual_error = _nearest_order(got, want, other_orders)
    if unusual is not None and (usual is None or unusual_error < error / 1000):
        return unusual
    return usual or identity


def _nearest_order(
    got: np.ndarray, want: np.ndarray, orders: Sequence[Tuple[int, ...]]
) -> Tuple[Optional[Tuple[int, ...]], float]:
    """Return (the permutation in `orders` with the smallest error, that error); (None, 0.0) if no shape fits."""
    fitting = [order for order in orders if _can_transpose(got, want, order)]
    errors = [_measure_distance(got.transpose(order), want) for order in fitting]
    return (fitting[int(np.argmin(errors))], min(errors)) if fitting else (None, 0.0)


def _can_transpose(got: np.ndarray, want: np.ndarray, order: Sequence[int]) -> bool:
    """Return whether `got`, with its axes permuted by `order`, has the shape of `want`."""
    return tuple(got.shape[axis] for axis in order) == want.shape


def _measure_distance(got: np.ndarray, want: np.ndarray) -> float:
    """Return the sum of the absolute differences of the elements of two arrays of one shape.

    A difference of NaN counts as 0, and a difference above 1e30 as 1e30. If `want` has no float, integer or bool
    dtype of numpy, return the number of different elements.
    """
    if want.dtype.kind not in "fiub":
        return float(np.count_nonzero(got != want))
    with np.errstate(all="ignore"):
        difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
        return float(np.minimum(np.nan_to_num(difference, nan=0.0), 1e30).sum())
