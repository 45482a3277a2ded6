"""Compare the derivatives of a case with finite differences, which the reference computes in float64.

The function that is differentiated is a weighted sum of all float32 outputs of the case, by all of its float32 inputs.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from matrix.suites.cache import Case
from onnx_compat.errors import NeedsKnownError
from onnx_compat.ir import dtypes, input_dependencies
from onnx_compat.model import TensorType
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

__all__ = ["AGREES", "FALLBACK", "REFUSED", "WRONG", "Outcome", "RealNumbers", "compare_derivatives"]

AGREES, FALLBACK, REFUSED, WRONG = "agrees", "agrees with a fallback", "refused", "wrong"
#: How many elements of an input are varied, and by how much.
ELEMENTS, STEP = 8, 1e-6
#: The differences of a smooth function of both sides, and those of a longer step, differ by less, relative to their size.
SMOOTH, LONGER = 1e-3, 4
#: The tolerances of derivatives in float64 and in float32: relative to the element, and to the largest of the input.
EXACT, COARSE = (1e-4, 1e-6), (2e-3, 2e-4)
_TRAINING = "ai.onnx.preview.training"
_TOTAL = "total_of_the_outputs"
#: The errors that refuse a valid model. Any other error is a wrong outcome.
_REFUSALS = (onnx_compat.UnsupportedError, onnx_compat.LimitError)


class Outcome(NamedTuple):
    """The outcome of a case: `AGREES`, `FALLBACK`, `REFUSED` or `WRONG`, with its reason as text."""

    case: str
    outcome: str
    reason: str = ""


class Element(NamedTuple):
    """An element of an input, and the range of the derivative by it.

    The range has the sum of the lower and the sum of the upper one-sided differences of all terms. It is unlimited if a
    term jumps on both sides. `is_smooth`: the differences agree. Otherwise the function has a kink or a jump here.
    """

    name: str
    position: Tuple[int, ...]
    low: float
    high: float
    is_smooth: bool


class RealNumbers(Reference):
    """The reference with float64 in place of every float dtype: it rounds no float to the dtype of the program."""

    def constant(self, array: np.ndarray, dtype: Any) -> Any:
        """Return a constant of floats as float64, and any other constant itself."""
        return np.asarray(array, np.float64) if dtype.kind == "f" else array

    def cast(self, x: Any, dtype: Any) -> Any:
        """Return x unrounded for a cast to a float dtype; the cast of the reference otherwise."""
        return super().cast(x, dtypes.float64 if dtype.kind == "f" else dtype)

    def bitcast(self, x: Any, dtype: Any) -> Any:
        """Return the bits of x, rounded to the float dtype of the program, as `dtype`."""
        source = self.node.args[0].spec.dtype  # type: ignore[union-attr]  # the argument is a tensor
        return self.finish(super().bitcast(np.asarray(x, source.numpy), dtype), dtype)

    def finish(self, handle: Any, dtype: Any) -> Any:
        """Return floats as float64, unrounded, and any other result as the reference does."""
        return np.asarray(handle, np.float64) if dtype.kind == "f" else super().finish(handle, dtype)


class _Function:
    """The weighted sum of the outputs of a case as a function of its variables, and its derivative.

    - variables: name -> array of the float32 inputs. An input whose value the model must know is left out.
    - other_inputs: name -> array of the inputs whose dtype numpy lacks.
    - model: a model of the variables and `other_inputs` that computes the sum. Its other inputs are initializers.
    - terms: the names of the tensors that are summed.
    """

    def __init__(self, case: Case) -> None:
        proto = onnx.load(str(case.model))
        (data, *_) = case.data_sets()
        values: Dict[str, Any] = {name: value for name, value in data.inputs.items() if value is not None}
        floats = _float_ports(proto.graph.input), _float_ports(proto.graph.output)
        self.variables: Dict[str, np.ndarray] = {
            name: value for name, value in values.items() if name in floats[0] and value.size > 0
        }
        recorded: Dict[str, Any] = data.outputs
        outputs = {name: value for name, value in recorded.items() if name in floats[1] and value.size > 0}
        self.is_defined = bool(self.variables and outputs) and all(isinstance(v, np.ndarray) for v in values.values())
        if self.is_defined:
            constants = {name: value for name, value in values.items() if name not in self.variables}
            kinds = {port.name: port.type.tensor_type.elem_type for port in proto.graph.input}
            self.other_inputs = {
                name: constants.pop(name) for name in list(constants) if not dtypes.DType.of(kinds[name]).native
            }
            _fix_inputs(proto, constants)
            self.terms = _sum_outputs(proto, outputs)
            self._fix_known(proto)
            self.is_defined = bool(self.variables)
            self.model = proto

    def _fix_known(self, proto: onnx.ModelProto) -> None:
        """Make those variables initializers whose values the model must know, such as the scales of a Resize."""
        while self.variables:
            try:
                self._program(proto)
            except NeedsKnownError as error:
                ports = list(self.variables)
                needed = _needed_inputs(error, ports)
                if not needed:
                    raise
                _fix_inputs(proto, {name: self.variables.pop(name) for name in needed})
            else:
                return

    def _program(self, proto: onnx.ModelProto) -> Any:
        graph = onnx_compat.load(proto).graph
        ports = [Port(name, dtypes.float32, array.shape) for name, array in self.variables.items()]
        by_name = [port.name for port in graph.inputs]

        def run(*tensors: Any) -> Any:
            given: Dict[str, Any] = dict(zip(self.variables, tensors))
            for port in graph.inputs:
                if port.name in self.other_inputs and isinstance(port.type, TensorType):
                    given[port.name] = lift(dtypes.from_public(self.other_inputs[port.name])[0], port.type.dtype)
            for k, tensor in enumerate(tensors):
                tensor.ref.name = ports[k].name
            return Interpreter().run(graph, [given.get(name) for name in by_name])

        return record_program(run, ports, SHIM.emitter())

    def derivative(self) -> onnx.ModelProto:
        """Return the model whose outputs are the derivatives, `d_<name>` for each variable."""
        xs, zs = list(self.variables), list(self.other_inputs)
        outputs = ["d_" + name for name in xs]
        proto = _with_outputs(self.model, outputs)
        names: Dict[str, Any] = {"xs": xs, "zs": zs} if zs else {"xs": xs}
        proto.graph.node.append(
            helper.make_node("Gradient", xs + zs, outputs, domain=_TRAINING, y=_TOTAL, name="the derivative", **names)
        )
        if _TRAINING not in {entry.domain for entry in proto.opset_import}:
            proto.opset_import.append(helper.make_opsetid(_TRAINING, 1))
        return proto

    def differences(self) -> List[Element]:
        """Return the one-sided differences by some elements of each variable. An element without them is left out."""
        region = self._program(_with_outputs(self.model, self.terms)).region
        arrays = {name: np.array(array, np.float64) for name, array in self.variables.items()}

        def terms(array: np.ndarray, index: Tuple[int, ...], value: float) -> np.ndarray:
            kept = array[index]
            array[index] = value
            try:
                outputs = emit(region, RealNumbers(), list(arrays.values()))
                return np.concatenate([output.reshape(-1) for output in outputs])
            except onnx_compat.OnnxCompatError:  # the step changes the size of an output
                return np.full(1, np.nan)
            finally:
                array[index] = kept

        elements, random = [], np.random.RandomState(0)
        for name, array in arrays.items():
            for flat in sorted(random.permutation(array.size)[:ELEMENTS]):
                index = tuple(int(k) for k in np.unravel_index(flat, array.shape))
                center = float(array[index])
                if np.isfinite(center):
                    step = STEP * max(1.0, abs(center))
                    values = [terms(array, index, center + k * step) for k in (-LONGER, -1, 0, 1, LONGER)]
                    elements += _elements(name, index, values, step)
        return elements

    def exact_derivatives(self) -> Dict[str, np.ndarray]:
        """Return the derivatives by the rules of the core, computed in float64."""
        program = self._program(self.derivative())
        arrays = [np.array(array, np.float64) for array in self.variables.values()]
        return dict(zip(self.variables, emit(program.region, RealNumbers(), arrays)))


def _elements(name: str, index: Tuple[int, ...], values: Sequence[np.ndarray], step: float) -> List[Element]:
    """Return a list of one element; an empty list if a one-sided difference is not finite.

    `values`: the terms of the function at 5 places: `LONGER` steps and a step below the place, there, and above it.
    """
    if len({value.shape for value in values}) > 1 or not np.isfinite(values).all():
        return []
    farther_below, below, center, above, farther_above = values
    left, right = (center - below) / step, (above - center) / step
    jumps_left, jumps_right = (
        np.abs(farther - near) > SMOOTH * np.maximum(1, np.abs(near))
        for farther, near in (
            ((center - farther_below) / (LONGER * step), left),
            ((farther_above - center) / (LONGER * step), right),
        )
    )
    if (jumps_left & jumps_right).any():
        return [Element(name, index, -np.inf, np.inf, False)]
    sides = np.where(jumps_left, right, left), np.where(jumps_right, left, right)
    low, high = float(np.minimum(*sides).sum()), float(np.maximum(*sides).sum())
    is_smooth = high - low <= SMOOTH * max(1.0, abs(low), abs(high)) and not (jumps_left | jumps_right).any()
    return [Element(name, index, low, high, is_smooth)]


def _with_outputs(proto: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Return a copy of a model with these float32 outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    del copy.graph.output[:]
    copy.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    return copy


def _float_ports(ports: Iterable[onnx.ValueInfoProto]) -> Set[str]:
    return {port.name for port in ports if port.type.tensor_type.elem_type == TensorProto.FLOAT}


def _fix_inputs(proto: onnx.ModelProto, values: Dict[str, Any]) -> None:
    """Replace inputs of the graph of `proto` by initializers with these values, in place."""
    kept = [port for port in proto.graph.input if port.name not in values]
    defaults = [tensor for tensor in proto.graph.initializer if tensor.name not in values]
    del proto.graph.input[:], proto.graph.initializer[:]
    proto.graph.input.extend(kept)
    proto.graph.initializer.extend(defaults)
    for name, value in values.items():
        proto.graph.initializer.append(numpy_helper.from_array(value, name))


def _sum_outputs(proto: onnx.ModelProto, outputs: Dict[str, np.ndarray]) -> List[str]:
    """Replace the outputs of the graph of `proto` by the weighted sum of `outputs`, name -> recorded value, in place.

    Return the names of the tensors that are summed: the outputs, times their weights.
    """
    random, terms, products = np.random.RandomState(1), [], []
    for k, (name, value) in enumerate(outputs.items()):
        weights, product, term = ("%s_%d" % (part, k) for part in ("weights", "product", "term"))
        array = np.asarray(random.uniform(0.25, 1, value.shape) * random.choice([-1, 1], value.shape), np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, weights))
        proto.graph.node.append(helper.make_node("Mul", [name, weights], [product]))
        proto.graph.node.append(helper.make_node("ReduceSum", [product], [term], keepdims=0))
        products.append(product)
        terms.append(term)
    while len(terms) > 1:
        total = "%s_and_%s" % (terms[0], terms[1])
        proto.graph.node.append(helper.make_node("Add", terms[:2], [total]))
        terms[:2] = [total]
    proto.graph.node.append(helper.make_node("Identity", terms, [_TOTAL]))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info(_TOTAL, TensorProto.FLOAT, None))
    if not {"", "ai.onnx"} & {entry.domain for entry in proto.opset_import}:
        proto.opset_import.append(helper.make_opsetid("", 13))
    return products


def _needed_inputs(error: NeedsKnownError, names: Sequence[str]) -> List[str]:
    """Return those of `names` that the value depends on that must be known. The inputs of the program have names."""
    if error.value is None or error.value.ref is None:
        return []
    refs, sized = input_dependencies(error.value.ref)
    dependencies = {ref.name for ref in (*refs, *sized)}
    return [name for name in names if name in dependencies]


def _disagreements(elements: Sequence[Element], derivatives: Dict[str, np.ndarray], tolerance: Any) -> List[str]:
    """Return a line for each element whose derivative is not a derivative of the function.

    At a kink or a jump, a derivative must lie in the range of the one-sided differences, or be 0.
    """
    relative, absolute = tolerance
    largest = {element.name: 1.0 for element in elements}
    for element in elements:
        if element.is_smooth:
            largest[element.name] = max(largest[element.name], abs(element.high))
    wrong = []
    for element in elements:
        got = float(np.asarray(derivatives[element.name], np.float64)[element.position])
        low, high = element.low, element.high
        slack = relative * max(abs(low), abs(high)) + absolute * largest[element.name] if np.isfinite(high) else 0
        if not (np.isfinite(got) and (low - slack <= got <= high + slack or (got == 0 and not element.is_smooth))):
            wrong.append("d %s%s is %.6g, not %.6g … %.6g" % (element.name, list(element.position), got, low, high))
    return wrong


def compare_derivatives(case: Case, shim: str) -> Optional[Outcome]:
    """Compare the derivatives of a case on a shim with finite differences. Return the outcome.

    On the reference, the derivatives by the rules of the core are also computed in float64, and compared exactly. None
    is returned if there is nothing to differentiate: the case draws random numbers, or lacks float32 inputs or outputs.
    """
    if "random" in case.tags:
        return None
    wrong = []
    try:
        function = _Function(case)
        if not function.is_defined:
            return None
        elements = function.differences()
        if shim == SHIM.name:
            wrong = _disagreements(elements, function.exact_derivatives(), EXACT)
        runnable = onnx_compat.prepare(function.derivative().SerializeToString(), shim=shim)
        outputs = list(runnable.run({**function.variables, **function.other_inputs}))
        derivatives = dict(zip(function.variables, outputs))
        wrong += [
            "d %s has the shape %s" % (name, derivatives[name].shape)
            for name, array in function.variables.items()
            if derivatives[name].shape != array.shape
        ]
        wrong = wrong or _disagreements(elements, derivatives, COARSE)
    except _REFUSALS as error:
        return Outcome(case.id, REFUSED, " ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - any other exception is the outcome of the case
        return Outcome(case.id, WRONG, "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:300]))
    if wrong:
        return Outcome(case.id, WRONG, "; ".join(wrong[:3]))
    fallbacks = ", ".join(map(str, getattr(runnable, "fallbacks", ())))
    return Outcome(case.id, FALLBACK if fallbacks else AGREES, fallbacks)
