"""Declare and apply primitives: constant folding if all arguments are known, else recording.

The declarations fill the catalogue `PRIMITIVES`. Tests, documentation and the check that a shim is complete use it.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import Const, Extents, Ref, Region, Spec, Target
from onnx_compat.ir.dims import (
    Dim,
    Extent,
    Undecided,
    is_at_most,
    is_equal,
    is_equal_shape,
    is_static,
    is_within_limits,
)
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives.fold_budget import is_affordable
from onnx_compat.tracing.layout import permute_shape
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Order, Tensor

__all__ = [
    "PRIMITIVES",
    "RULES",
    "Application",
    "Primitive",
    "apply",
    "apply_primitive",
    "broadcast",
    "elementwise_rule",
    "fold",
    "primitive",
    "result",
    "rule",
]


class Primitive(NamedTuple):
    """An entry of the catalogue `PRIMITIVES`.

    kinds: the dtype kinds for which the primitive is defined, a letter for each: f float, i signed integer, u unsigned
        integer, b bool, s string, c complex.
    meaning: its exact specification, from the docstring of its function.
    """

    name: str
    kinds: str
    meaning: str


PRIMITIVES: Dict[str, Primitive] = {}
F = TypeVar("F", bound=Callable[..., Any])


class Application(NamedTuple):
    """The application of a primitive: its arguments in physical layout, its parameters, its regions, and the target.

    Inference rules (see `rule`) and the conditions of `onnx_compat.primitives.conditions` take it as their argument.
    """

    primitive: str
    args: Sequence[Any]
    params: Dict[str, Any]
    regions: Sequence[Region]
    target: Target

    def spec(self, index: int) -> Spec:
        """Return the type of the tensor argument `index`. Raises InvalidModelError if the argument is not a tensor."""
        return spec_of(self.args[index])

    def sizes(self, index: int) -> Tuple[Extent, ...]:
        """Return the sizes in the argument `index`. Raises InvalidModelError if the argument is not a list of sizes."""
        arg = self.args[index]
        if not isinstance(arg, Extents):
            raise InvalidModelError("argument %d is not a list of sizes" % index)
        return arg.dims


def spec_of(arg: object) -> Spec:
    """Return the type of a tensor argument. Raises InvalidModelError if the argument is not a tensor."""
    if not isinstance(arg, (Ref, Const)):
        raise InvalidModelError("%r is not a tensor" % (arg,))
    return arg.spec


Rule = Callable[[Application], Sequence[Spec]]
#: Primitive -> its rule. The rule returns the dtypes and physical shapes of the results; None for a run-time size.
RULES: Dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the type inference rule of the primitives `names`.

    The rule gives the types of results that are recorded, and the verifier compares recorded types with it. The
    decorator returns the function unchanged.
    """

    def declare(function: Rule) -> Rule:
        RULES.update((name, function) for name in names)
        return function

    return declare


def primitive(kinds: str = "fiub", infer: Optional[Rule] = None) -> Callable[[F], F]:
    """Return a decorator that adds a function to the catalogue as a primitive, and returns the function unchanged.

    The function's docstring is the exact specification of the primitive.

    kinds: the dtype kinds for which the primitive is defined.
    infer: its type inference rule. None if a function in `primitives.rules` is the rule.
    """

    def declare(function: F) -> F:
        name = function.__name__
        PRIMITIVES[name] = Primitive(name, kinds, (function.__doc__ or "").strip())
        if infer is not None:
            RULES[name] = infer
        return function

    return declare


def elementwise_rule(dtype: Optional[DType] = None) -> Rule:
    """Return an inference rule for an elementwise primitive: its operands broadcast.

    The result has `dtype`; None: the dtype of the last operand.
    """

    def infer(at: Application) -> Sequence[Spec]:
        specs = [spec_of(arg) for arg in at.args]
        return [Spec(dtype or specs[-1].dtype, broadcast(*[spec.shape for spec in specs]))]

    return infer


# The integer primitives of shape computations: they fold also if some of the ints are symbolic sizes.
_SYMBOLIC = frozenset(
    [
        "neg",
        "add",
        "sub",
        "mul",
        "div",
        "floordiv",
        "mod",
        "maximum",
        "minimum",
        "equal",
        "less",
        "less_equal",
        "where",
        "cast",
        "reshape",
        "transpose",
        "broadcast_to",
        "concat",
        "slice",
        "take",
        "reverse",
        "reduce_prod",
        "reduce_sum",
        "gather_nd",
        "tile",
        "pad",
    ]
)


def fold(name: str, args: Sequence[Any], dtypes: Sequence[DType], **params: Any) -> Optional[Tuple[Tensor, ...]]:
    """Constant folding: compute a primitive by the numpy reference while tracing. Return a tuple of results, or None.

    - args: Tensors, lists of Tensors, `Extents` or None.
    - dtypes: the dtypes of the results.
    - params: the parameters of the primitive. Axes are logical.

    None is returned in these cases:

    - An element or a size of an argument is not known. For the primitives in `_SYMBOLIC`, symbolic sizes count as
      known.
    - A comparison of symbolic sizes depends on run-time values, or the result has a symbolic shape.
    - The limits of `fold_budget` or `dims.is_within_limits` are exceeded.

    Raises InvalidModelError for values that the reference refuses.
    """
    from onnx_compat.reference import REFERENCE

    symbolic = False
    arrays = []
    for tensor in _tensors(args):
        if tensor.value is None:
            return None
        arrays.append(tensor.value)
        symbolic = symbolic or not tensor.known
    symbolic = symbolic or not all(is_static(size) for arg in args if isinstance(arg, Extents) for size in arg.dims)
    if symbolic and name not in _SYMBOLIC:
        return None
    if not is_affordable(name, arrays, lambda: _application(name, args, params), RULES[name]):
        return None
    try:
        results = getattr(REFERENCE, name)(*[_reference_arg(arg) for arg in args], **params)
    except Undecided:
        return None
    except (IndexError, OverflowError, TypeError, ValueError) as error:  # OverflowError: an integer of infinity
        if symbolic:  # a size of the result is symbolic, so numpy cannot build the array
            return None
        if isinstance(error, TypeError):
            raise
        raise InvalidModelError("the primitive '%s' cannot be applied to these values: %s" % (name, error)) from error
    if not isinstance(results, tuple):
        results = (results,)
    if symbolic:
        results = [np.asarray(array, object) for array in results]
        if not all(is_within_limits(size) for array in results for size in array.reshape(-1)):
            return None
    return tuple(
        _tensor(REFERENCE.finish(array, dtype), dtype, _weight_behind(name, args, array.size, dtype))
        for array, dtype in zip(results, dtypes)
    )


# The primitives that move elements: their result may have another size than the weight that it comes from.
_MOVES = frozenset(["concat", "gather_nd", "pad", "slice", "take"])


def _weight_behind(name: str, args: Sequence[Any], size: int, dtype: DType) -> Optional[str]:
    """Return the name of the weight that a folded value with `size` elements comes from; None if it is no weight.

    The name is that of the first argument that has a weight's name and `size` elements: a scaled weight stays the
    weight. The size is not compared if the primitive only moves elements. A result of another kind than float is no
    weight.
    """
    if dtype.kind != "f":
        return None
    named = [tensor for tensor in _tensors(args) if tensor.weight is not None]
    return next((tensor.weight for tensor in named if name in _MOVES or tensor.size == size), None)


def _tensors(args: Sequence[Any]) -> List[Tensor]:
    flat: List[Tensor] = []
    for arg in args:
        if isinstance(arg, Tensor):
            flat.append(arg)
        elif isinstance(arg, (list, tuple)):
            flat.extend(_tensors(arg))
    return flat


def _application(name: str, args: Sequence[Any], params: Dict[str, Any]) -> Application:
    """Return the application of a primitive to arguments of `fold`, in the logical layout."""
    return Application(name, [_constant_arg(arg) for arg in args], params, (), Target())


def _constant_arg(arg: object) -> Any:
    """Convert an argument of `fold` for an inference rule: a Tensor to a `Const`, lists by item; others stay."""
    if isinstance(arg, Tensor):
        assert arg.value is not None
        return Const(arg.value, arg.dtype)
    return tuple(map(_constant_arg, arg)) if isinstance(arg, (list, tuple)) else arg


def _reference_arg(arg: object) -> Any:
    """Convert an argument of `fold` for the reference: a Tensor to its array, `Extents` to `KnownSizes`, lists by item.

    A Tensor that is not known becomes None. Any other argument stays.
    """
    if isinstance(arg, Tensor):
        return arg.value
    if isinstance(arg, Extents):
        return KnownSizes(arg.dims)
    if isinstance(arg, (list, tuple)):
        return [_reference_arg(item) for item in arg]
    return arg


class KnownSizes:
    """A list of sizes with the attributes of `emission.Sizes`, for the reference. Each attribute is the same tuple.

    A symbolic size in it stays symbolic, also in `known`.
    """

    def __init__(self, dims: Sequence[Extent]) -> None:
        self.dims = tuple(dims)
        self.known = self.with_wildcard = self.scalars = self.dims


def _tensor(array: np.ndarray, dtype: DType, weight: Optional[str]) -> Tensor:
    if array.dtype == object and dtype.kind != "s" and not any(isinstance(v, Dim) for v in array.reshape(-1)):
        array = array.astype(dtype.numpy)
    elif array.dtype not in (object, dtype.numpy):
        raise AssertionError("the reference gave %s for %s" % (array.dtype, dtype.name))
    return Tensor(dtype, array.shape, array, weight=weight)


def apply_primitive(
    name: str,
    args: Sequence[Any],
    params: Dict[str, Any],
    orders: Sequence[Order] = (None,),
    regions: Sequence[Region] = (),
) -> List[Tensor]:
    """Record a primitive on physical arguments, or execute it if the trace executes at once. Return a list of Tensors.

    The primitive's inference rule gives the types of the results. `params` are its parameters, with physical axes.
    `orders` has an entry for each result: the order of axes in which it is stored; None is the logical order. By
    default, there is one result in logical order. `regions` are the bodies of control flow.

    Raises InvalidModelError for arguments that the inference rule refuses. Raises UnsupportedError or LimitError if the
    trace cannot hold or execute the node, and NeedsKnownError outside of a trace.
    """
    trace = current_trace()
    specs = RULES[name](Application(name, args, params, regions, trace.target or Target()))
    return [result(ref, order) for ref, order in zip(trace.record(name, args, params, specs, regions), orders)]


def apply(
    name: str,
    args: Sequence[Any],
    params: Dict[str, Any],
    specs: Sequence[Spec],
    orders: Sequence[Order] = (None,),
    regions: Sequence[Region] = (),
) -> List[Tensor]:
    """Record a native operator on physical arguments, or execute it if the trace executes at once. Return its results.

    A native operator has no inference rule: `specs` has the logical type of each result. `orders` has an entry for
    each result: the order of axes in which it is stored; None is the logical order. By default, there is one result in
    logical order.

    Raises UnsupportedError or LimitError if the trace cannot hold or execute the node, and NeedsKnownError outside of
    a trace.
    """
    physical = [Spec(spec.dtype, permute_shape(spec.shape, order)) for spec, order in zip(specs, orders)]
    refs = current_trace().record(name, args, params, physical, regions)
    return [result(ref, order) for ref, order in zip(refs, orders)]


def result(ref: Ref, order: Order = None) -> Tensor:
    """Return a Tensor for a recorded value. The value is stored in `order`, and the Tensor has the logical shape."""
    shape = list(ref.spec.shape)
    if order is not None:
        for position, axis in enumerate(order):
            shape[axis] = ref.spec.shape[position]
    return Tensor(ref.spec.dtype, shape, ref=ref, order=order)


def broadcast(*shapes: Sequence[Extent]) -> Tuple[Extent, ...]:
    """Return the shape to which `shapes` broadcast by numpy's rule; None for a size that symbolic sizes do not decide.

    Next to a static size other than 1, a symbolic size has no effect: the static size is returned. Raises
    InvalidModelError if two static sizes of an axis differ and neither is 1.
    """
    longest = max(shapes, key=len)
    if all(not shape or shape is longest or is_equal_shape(shape, longest) for shape in shapes):
        return tuple(longest)
    rank = len(longest)
    merged: List[Any] = []
    for axis in range(rank):
        extents = [shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0]
        merged.append(_merge_extents(extents, shapes))
    return tuple(merged)


def _merge_extents(extents: Sequence[Extent], shapes: Sequence[Sequence[Extent]]) -> Optional[Extent]:
    """Return the size to which the sizes `extents` of one axis broadcast; None if symbolic sizes do not decide it.

    Raises InvalidModelError if two static sizes differ and neither is 1. `shapes` are only shown in the error.
    """
    different: List[Extent] = []
    for extent in extents:
        if not is_equal(extent, 1) and not any(is_equal(extent, known) for known in different):
            different.append(extent)
    numbers = [extent for extent in different if is_static(extent)]
    if len(numbers) > 1:
        raise InvalidModelError(
            "the shapes %s do not broadcast together" % " and ".join(str(list(shape)) for shape in shapes)
        )
    if len(different) <= 1:
        return different[0] if different else 1
    if numbers:  # the symbolic size is this number or 1; otherwise the model is invalid, and fails at run time
        return numbers[0]
    return _upper_bound(different)


def _upper_bound(different: Sequence[Extent]) -> Optional[Extent]:
    """Return the size that `is_at_most` proves to be the largest: n for min(512, n) and n. None without a proof."""
    for extent in different:
        rivals = [rival for rival in different if rival is not extent]
        if all(is_at_most(rival, extent) for rival in rivals):
            return extent
    return None
