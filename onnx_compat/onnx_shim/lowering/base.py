"""The base of all families: calls of operators, in the form and the dtypes that the target has."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Spec, dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim import dtype_ladders
from onnx_compat.onnx_shim.dtype_ladders import EXACT, WRAPPING
from onnx_compat.onnx_shim.graph_builder import GraphBuilder, Scope, Value
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.signatures import newest_opset, signature_of
from onnx_compat.onnx_shim.spelling import Spelling, respell
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Emitter
from onnx_compat.tracing.values import Tensor

__all__ = ["EXACT", "WRAPPING", "Calls", "Shape", "broadcast_shape", "without_axes"]

Shape = Sequence[Any]
Operand = Union[Value, float, bool, str]


def broadcast_shape(*shapes: Shape) -> Tuple[Optional[int], ...]:
    """Return the shape to which shapes broadcast, with None for a size that is not known.

    Beside a known size other than 1, a size that is not known must be 1 or the same: the result has the known size.
    """
    rank = max(map(len, shapes))
    merged: List[Optional[int]] = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if -axis <= len(shape)]
        fixed = [size for size in sizes if size is not None and size != 1]
        merged.append(fixed[0] if fixed else None if None in sizes else 1)
    return tuple(merged)


def without_axes(shape: Shape, axes: Sequence[int]) -> Tuple[Any, ...]:
    """Return a shape without some of its axes."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


class Calls(Emitter):
    """Calls operators of the target, for the primitives of the families.

    A call is given in the form of the newest version of the operator that the installed onnx knows. It is spelled for
    the version of the target.
    """

    layout = "channels_first"
    filter_layout = "OIHW"

    def __init__(self, offer: OperatorOffer) -> None:
        self.offer = offer
        self.builder = GraphBuilder()

    # -- calls ---------------------------------------------------------------------------------------------------------
    def attempts(
        self,
        operator: str,
        inputs: Sequence[Optional[Value]],
        results: Sequence[Tuple[DType, Shape]],
        domain: str = "",
        **attributes: Any,
    ) -> Optional[Tuple[Value, ...]]:
        """Call an operator without casts of its inputs. Return its results.

        - inputs, attributes: in the form of the newest version of the operator.
        - results: (dtype, shape) of each result.

        None: the target lacks the operator for these dtypes and attributes.
        """
        target = self.offer.signature(operator, domain)
        newest = signature_of(domain, operator, self.newest(domain))
        if target is None or newest is None:
            return None
        spelled = respell(Spelling(tuple(inputs), attributes), newest, target, _elements, self.array_value)
        if spelled is None:
            return None
        arguments, attributes = spelled
        kinds = [None if value is None else value.dtype for value in arguments]
        if not self.offer.has(operator, kinds, [dtype for dtype, _ in results], attributes, domain):
            return None
        values = [Value(dtype, shape) for dtype, shape in results]
        return self.builder.call(operator, arguments, values, attributes, domain)

    def newest(self, domain: str) -> int:
        """Return the version of a domain in whose form calls are given."""
        return newest_opset() if not domain else self.offer.opsets.get(domain, 1)

    def attempt(
        self,
        operator: str,
        values: Sequence[Value],
        rest: Sequence[Optional[Value]] = (),
        ladder: Dict[str, Tuple[str, ...]] = EXACT,
        result: Optional[DType] = None,
        shape: Optional[Shape] = None,
        first: Sequence[Optional[Value]] = (),
        behaviour: str = "",
        **attributes: Any,
    ) -> Optional[Value]:
        """Call an operator in the first dtype of a ladder that the target's operator takes. Return its only result.

        - values: the inputs of one dtype, which are cast. `first` are the inputs before them, `rest` those after.
        - ladder: the name of a dtype -> the names of wider dtypes, `EXACT` or `WRAPPING`.
        - result: the dtype of the result. By default it has the dtype of `values`, and is cast back.
        - shape: the shape of the result, by default that to which `values` broadcast.
        - behaviour: a behaviour that the target must have in this dtype; by default none.

        None: the target has no such operator for these dtypes.
        """
        dtype = values[0].dtype
        size = broadcast_shape(*[value.shape for value in values]) if shape is None else shape
        for kind in self.kinds(dtype, ladder):
            if behaviour and not self.offer.is_reliable(behaviour, kind):
                continue
            cast = [self.convert(value, kind) for value in values] if kind != dtype else list(values)
            outputs = self.attempts(operator, [*first, *cast, *rest], [(result or kind, size)], **attributes)
            if outputs is not None:
                return outputs[0] if result is not None else self.convert(outputs[0], dtype)
        return None

    def call(self, operator: str, values: Sequence[Value], *args: Any, **params: Any) -> Value:
        """Call an operator as `attempt` does, with the same arguments. Return its only result.

        Raises UnsupportedError if the target lacks the operator for these dtypes: `attempt` returns None then.
        """
        outputs = self.attempt(operator, values, *args, **params)
        if outputs is None:
            raise self.refusal(operator, values[0].dtype)
        return outputs

    def refusal(self, subject: str, dtype: DType) -> UnsupportedError:
        """Return the error that the target lacks something for a dtype. `subject`: the operator, or another text."""
        return UnsupportedError(
            "opset %d has no %s for %s%s" % (self.offer.opset, subject, dtype.name, self.offer.origin_text),
            hint="choose a later opset, or a runtime with this operator",
        )

    def compose(self, function: Callable[..., Any], *values: Value) -> Any:
        """Emit the primitives that a function applies to Tensors, in place of an operator that the target lacks.

        `function` gets a Tensor for each of `values`; a constant is a known Tensor. It returns a Tensor or a sequence.
        Return the value of its single result, or a tuple of values.
        """
        from onnx_compat.tracing.trace import Trace

        open_values = [value for value in values if value.array is None]

        def body(*tensors: Tensor) -> List[Tensor]:
            rest = list(tensors)
            given = [rest.pop(0) if v.array is None else Tensor(v.dtype, v.array.shape, v.array) for v in values]
            results = function(*given)
            return list(results) if isinstance(results, (list, tuple)) else [results]

        with Trace().active() as trace:
            region = trace.region([Spec(value.dtype, value.shape) for value in open_values], body)
        outputs = emit(region, self, open_values)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def kinds(self, dtype: DType, ladder: Dict[str, Tuple[str, ...]]) -> List[DType]:
        """Return `dtype`, then the wider dtypes of a ladder to which the target can cast `dtype`, and back."""
        wider = dtype_ladders.candidates(dtype, ladder)
        return [kind for kind in wider if self.has_cast(dtype, kind) and self.has_cast(kind, dtype)]

    def has_behaviour(self, behaviour: str, dtype: DType) -> bool:
        """Whether the target has a behaviour in each dtype in which it may compute an operator on `dtype`."""
        return all(self.offer.is_reliable(behaviour, kind) for kind in self.kinds(dtype, EXACT))

    # -- dtypes --------------------------------------------------------------------------------------------------------
    def has_cast(self, source: DType, target: DType) -> bool:
        """Whether the target can cast between two dtypes, or they are the same."""
        return source == target or self.offer.has("Cast", [source], [target], {"to": target.onnx})

    def convert(self, value: Value, dtype: DType, **attributes: Any) -> Value:
        """Return a value cast to another dtype, as Cast does it. A numeric constant of native dtypes is cast at once.

        A value that was cast from `dtype` to a wider dtype is cast back by no Cast: its source is returned.

        `attributes`: other attributes of the Cast, such as `saturate`.

        Raises UnsupportedError if the target cannot cast between the dtypes.
        """
        if value.dtype == dtype:
            return value
        source = self.cast_source(value)
        if source is not None and source.dtype == dtype:
            return source
        if value.array is not None and dtype.native and value.dtype.native and "s" not in dtype.kind + value.dtype.kind:
            with np.errstate(all="ignore"):
                return self.builder.constant(value.array.astype(dtype.numpy), dtype)
        outputs = self.attempts("Cast", [value], [(dtype, value.shape)], to=dtype.onnx, **attributes)
        if outputs is None:
            raise self.refusal("Cast to %s" % dtype.name, value.dtype)
        return outputs[0]

    def cast_source(self, value: Value) -> Optional[Value]:
        """Return the value that a Cast to a wider dtype turned into `value`; None if no such Cast computes it."""
        call = self.builder.producer_of(value, "Cast")
        source = None if call is None else call.inputs[0]
        return source if source is not None and _is_widening(source.dtype, value.dtype) else None

    # -- values --------------------------------------------------------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Value:
        """Return the constant with these elements, as a value of its carrier."""
        carrier = dtypes.string if dtype.kind == "s" else DType.of(dtype.numpy)
        return self.builder.constant(np.asarray(array), carrier)

    def array_value(self, array: np.ndarray) -> Value:
        """Return the constant with these elements and their dtype, one that numpy has."""
        return self.builder.constant(array, DType.of(array.dtype))

    def vector(self, elements: Any) -> Value:
        """Return a number or a list of numbers as a constant of its shape.

        Integers become int64, and floats keep their dtype. A list without elements becomes int64.
        """
        array = np.asarray(elements)
        array = array if array.dtype.kind == "f" and array.size else array.astype(np.int64)
        return self.builder.constant(array, DType.of(array.dtype))

    def scalar(self, number: Operand, dtype: DType) -> Value:
        """Return a number, bool or text as a constant of `dtype` without axes. A `Value` is returned unchanged."""
        if isinstance(number, Value):
            return number
        with np.errstate(all="ignore"):
            return self.builder.constant(np.asarray(number).astype(dtype.numpy), dtype)

    def result(
        self, operator: str, inputs: Sequence[Optional[Value]], kind: DType, shape: Shape, **attributes: Any
    ) -> Value:
        """Call an operator without casts of its inputs. Return its only result, of dtype `kind`.

        Raises UnsupportedError if the target lacks the operator for these dtypes and attributes.
        """
        outputs = self.attempts(operator, inputs, [(kind, shape)], **attributes)
        if outputs is None:
            raise self.refusal(operator, next(value.dtype for value in inputs if value is not None))
        return outputs[0]

    def placeholder(self, spec: Spec) -> Value:
        """Return a value of the type `spec`, stored in its carrier, without a producer.

        Raises UnsupportedError if the target has no tensors of the carrier.
        """
        carrier = dtypes.string if spec.dtype.kind == "s" else DType.of(spec.dtype.numpy)
        return self.placeholder_of(carrier, spec.shape)

    def placeholder_of(self, dtype: DType, shape: Shape) -> Value:
        """Return a value of this dtype without a producer. Raises UnsupportedError if the target lacks the dtype."""
        if not self.offer.has_tensors(dtype):
            raise self.refusal("tensors", dtype)
        return Value(dtype, shape)

    def name_value(self, handle: Value, name: str) -> None:
        """Let the value `handle` prefer this name, unless it prefers another or is a constant."""
        if handle.array is None and not handle.preferred_name:
            handle.preferred_name = name

    def graph_output(self, value: Value) -> Value:
        """Return `value` as an output for the innermost scope: the value itself, or a copy by Identity.

        It is a copy if no call of the scope computes the value, or if the scope has the value as an output already.
        """
        scope: Scope = self.builder.scope
        if scope.has_result(value) and not any(value is output for output in scope.outputs):
            return value
        copy = Value(value.dtype, value.shape)
        scope.calls.append(scope_identity(value, copy))
        return copy


def scope_identity(value: Value, copy: Value) -> Any:
    """Return a `Call` of Identity that copies `value` to `copy`."""
    from onnx_compat.onnx_shim.graph_builder import Call

    return Call("Identity", (value,), (copy,), {}, "")


def _is_widening(narrow: DType, wide: DType) -> bool:
    """Whether every value of a dtype is a value of another one: of a wider one, or of its carrier."""
    return wide.name in EXACT.get(narrow.name, ()) or (not narrow.native and wide == DType.of(narrow.numpy))


def _elements(value: Value) -> Optional[np.ndarray]:
    return value.array
