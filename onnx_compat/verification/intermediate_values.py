"""The values in between: of the model on an oracle, of the model on a shim, and inside a converted file.

Each subject gives what came about when the whole ran (`values`), and one node's results from exact inputs (`alone`).
"""

import itertools
import os
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from onnx_compat.conversion.bundle import Bundle
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, OnnxCompatError, UnsupportedError
from onnx_compat.ir.dtypes import from_public
from onnx_compat.model import Graph, GraphNode, Model, SequenceType, TensorType, ValueInfo
from onnx_compat.model.write import extract
from onnx_compat.shim.description import OpenedFile
from onnx_compat.verification.converted_file import flat, match_format
from onnx_compat.verification.oracle import Answer, ask

__all__ = ["InBundle", "InFile", "OnShim", "exact"]

Values = Dict[str, Any]


def exact(model: Model, inputs: Values, oracle: Optional[str]) -> Tuple[Values, Answer]:
    """Every value that the nodes of the model make, and the inputs, as the oracle says."""
    wide = _widened(model)
    answer = ask(wide, inputs, oracle)
    return {**inputs, **dict(zip((one.name for one in wide.outputs), answer.outputs))}, answer


class _Written:
    """A model for onnxruntime, written when it is asked for."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def SerializeToString(self) -> bytes:  # noqa: N802 (as an onnx.ModelProto has it)
        graph = self._model.graph
        content: bytes = extract(self._model, graph.nodes, graph.inputs, graph.outputs).SerializeToString()
        return content


def _part(model: Model, inputs: Sequence[ValueInfo], nodes: Sequence[GraphNode], outputs: Sequence[ValueInfo]) -> Model:
    graph = model.graph
    fed = {one.name for one in inputs} - {one.name for one in graph.inputs}
    stored = {name: one for name, one in graph.initializers.items() if name not in fed}
    inner = Graph(graph.name, inputs, outputs, nodes, stored, graph.value_info)
    made = Model(inner, model.opsets, model.ir_version, model.path, model.functions)
    made.source = _Written(made)
    return made


def _widened(model: Model) -> Model:
    """The model with everything that its nodes make as an output."""
    graph = model.graph
    types = {one.name: one.type for one in graph.outputs}
    made = dict.fromkeys(name for node in graph.nodes for name in node.outputs if name)
    return _part(model, graph.inputs, graph.nodes, [ValueInfo(name, types.get(name)) for name in made])


class OnShim:
    """A model on a shim, with everything that its nodes make as an output: nothing is fused over a node's end."""

    def __init__(self, model: Model, shim: str) -> None:
        self.model = model
        self.shim = shim
        self.notes: List[str] = []
        #: For the report, as `InFile` has it: a shim's own operators are not told apart.
        self.emitted: Dict[str, Tuple[str, ...]] = {}

    def values(self, inputs: Values, expected: Values) -> Values:
        """Where the whole cannot be prepared or run, each node by itself, from exact inputs."""
        from onnx_compat import prepare

        wide = _widened(self.model)
        try:
            results = prepare(wide, shim=self.shim).run(inputs)
            return dict(zip((one.name for one in wide.outputs), results))
        except OnnxCompatError as error:
            self.notes.append(
                "each node ran by itself, from exact inputs, because the model does not run with every value as an output: %s"
                % error.reason
            )
        found: Values = {}
        for node in self.model.graph.nodes:
            try:
                found.update(self.alone(node, expected))
            except OnnxCompatError as error:
                self.notes.append("'%s' does not run by itself: %s" % (node.name, error.reason))
        return found

    def alone(self, node: GraphNode, expected: Values) -> Values:
        from onnx_compat import prepare

        graph = self.model.graph
        read = dict.fromkeys(name for name in (*node.inputs, *node.captures()) if name)
        given = {name: expected[name] for name in read if name in expected}
        inputs = [ValueInfo(name, _type(value)) for name, value in given.items()]
        outputs = [ValueInfo(name, graph.value_info.get(name)) for name in node.outputs if name]
        results = prepare(_part(self.model, inputs, [node], outputs), shim=self.shim).run(given)
        return dict(zip((one.name for one in outputs), results))

    def aligned(self, name: str, got: Any, want: Any) -> Any:
        return got


def _type(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return SequenceType(_type(value[0]) if value else None)
    return None if value is None else TensorType(from_public(value)[1], tuple(np.shape(value)))


class InBundle:
    """A bundle. Its parts are taken as wholes: the values looked at are those that come out of one."""

    notes = ["the parts of the bundle are not looked into: compared is what comes out of each"]

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.emitted = {
            name: ("%s (%s)" % (part.path, "the fallback" if part.kind == "onnx" else part.kind),)
            for part in bundle.manifest.parts
            for name in bundle.made_by(part)
        }

    def values(self, inputs: Values, expected: Values) -> Values:
        return self._bundle.values(inputs)

    def alone(self, node: GraphNode, expected: Values) -> Values:
        return {name: self._bundle.alone(name, expected) for name in node.outputs if name in self.emitted}

    def aligned(self, name: str, got: Any, want: Any) -> Any:
        return got


class InFile:
    """A converted file. A value of the model is the tensor that bears its name."""

    def __init__(
        self, model: Model, path: Union[str, "os.PathLike[str]"], shim: str, channels_last: Sequence[str] = ()
    ) -> None:
        self.model = model
        self.shim = shim
        target = Path(os.fspath(path))
        found = selection.find(shim)
        form = match_format(found, target)
        if form is None:
            raise InputError("%s reads no such file as '%s'" % (shim, target))
        self._inside: OpenedFile = found.look_inside(str(target), form)
        self.notes = list(self._inside.notes)
        #: Value -> the place of each axis of the model's in the file's, as far as they are known to differ.
        self._orders: Dict[str, Tuple[int, ...]] = {
            one.name: (0, one.type.rank - 1, *range(1, one.type.rank - 1))
            for one in model.inputs
            if one.name in channels_last and isinstance(one.type, TensorType) and one.type.rank is not None
        }
        made = {name for node in model.graph.nodes for name in node.outputs}
        #: The values of the model that are tensors of the file: by its operators, or fed.
        self._kept = made & {name for step in self._inside.steps for name in step.outputs}
        self._kept.update(one.name for one in model.graph.inputs)
        self._makers = {name: step for step in self._inside.steps for name in step.outputs}
        #: Value -> the operators of the file that compute it, from values before it.
        self.emitted = {name: tuple(self._operators(name)) for name in self._kept if name in self._makers}

    def values(self, inputs: Values, expected: Values) -> Values:
        found = self._inside.values({name: self._laid_out(name, value) for name, value in flat(inputs)})
        return {name: value for name, value in found.items() if name in self._kept}

    def alone(self, node: GraphNode, expected: Values) -> Values:
        found = {}
        for name in node.outputs:
            if name in self._makers:
                given = {one: self._laid_out(one, expected[one]) for one in self._reads(name)}
                found[name] = self._inside.alone(name, given)
        return found

    def aligned(self, name: str, got: Any, want: Any) -> Any:
        """What the file holds, in the model's order of axes and type."""
        if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
            return got
        if got.dtype != want.dtype and "O" not in (got.dtype.kind, want.dtype.kind):
            got = got.astype(want.dtype)
        order = self._orders[name] = _order(got, want)
        return _unbounded(got.transpose(order), want)

    def _laid_out(self, name: str, value: Any) -> np.ndarray:
        array, order = _plain(value), self._orders.get(name)
        return array if order is None else array.transpose(np.argsort(order))

    def _reads(self, name: str) -> Set[str]:
        """The values of the model that a tensor is computed from, through tensors that are none."""
        return {one for step in self._steps(name) for one in step.inputs if one in self._kept and one != name}

    def _operators(self, name: str) -> Iterable[str]:
        return [step.operator for step in self._steps(name)]

    def _steps(self, name: str) -> List[Any]:
        wanted, waiting = set(), [name]
        while waiting:
            step = self._makers.get(waiting.pop())
            if step is not None and id(step) not in wanted:
                wanted.add(id(step))
                waiting += [one for one in step.inputs if one not in self._kept]
        return [step for step in self._inside.steps if id(step) in wanted]


def _plain(value: Any) -> np.ndarray:
    if value is None or isinstance(value, (list, tuple)):
        raise UnsupportedError("the values inside a file are compared for tensors, not for sequences")
    array: np.ndarray = from_public(value)[0]
    return array


def _unbounded(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """With infinities where the greatest number stands for one: the arithmetic of some runtimes stays finite, as in masks."""
    if got.dtype.kind != "f" or got.shape != want.shape:
        return got
    greatest = np.isinf(want) & (np.abs(got) == np.finfo(got.dtype).max) & (np.sign(got) == np.sign(want))
    return np.where(greatest, want, got)


def _order(got: np.ndarray, want: np.ndarray) -> Tuple[int, ...]:
    """Which permutation of the axes brings one to the other: of the usual ones that fit, the one that leaves the least error.
    Another one only if no usual one fits, or if next to nothing is left: a value may wait to be transposed.
    """
    rank = got.ndim
    identity = tuple(range(rank))
    if rank != want.ndim or not 1 < rank <= 6:
        return identity
    usual = [identity, (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)]
    found, error = _nearest(got, want, usual)
    if found is not None and error == 0:
        return found
    other, rest = _nearest(got, want, [one for one in itertools.permutations(range(rank)) if one not in usual])
    if other is not None and (found is None or rest < error / 1000):
        return other
    return found or identity


def _nearest(
    got: np.ndarray, want: np.ndarray, orders: Sequence[Tuple[int, ...]]
) -> Tuple[Optional[Tuple[int, ...]], float]:
    fitting = [one for one in orders if _fits(got, want, one)]
    errors = [_distance(got.transpose(one), want) for one in fitting]
    return (fitting[int(np.argmin(errors))], min(errors)) if fitting else (None, 0.0)


def _fits(got: np.ndarray, want: np.ndarray, order: Sequence[int]) -> bool:
    return tuple(got.shape[axis] for axis in order) == want.shape


def _distance(got: np.ndarray, want: np.ndarray) -> float:
    if want.dtype.kind not in "fiub":
        return float(np.count_nonzero(got != want))
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
        return float(np.minimum(np.nan_to_num(error, nan=0.0), 1e30).sum())
