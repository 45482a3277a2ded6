"""How a primitive is declared and applied: fold it if everything is known, otherwise record it.

The catalogue `PRIMITIVES` is filled by the declarations themselves; tests, documentation and the check that a shim is
complete are generated from it.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import Const, Extents, Ref, Region, Spec, Target
from onnx_compat.ir.dims import Dim, Extent, Undecided, is_at_most, is_equal, is_static
from onnx_compat.ir.dtypes import DType
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
    """An entry of the catalogue. `kinds`: the dtype kinds it is defined for (f, i, u, b, s, c)."""

    name: str
    kinds: str
    meaning: str


PRIMITIVES: Dict[str, Primitive] = {}
F = TypeVar("F", bound=Callable[..., Any])


class Application(NamedTuple):
    """A primitive applied to physical arguments, as its rule sees it."""

    primitive: str
    args: Sequence[Any]
    params: Dict[str, Any]
    regions: Sequence[Region]
    target: Target

    def spec(self, place: int) -> Spec:
        """The type of a tensor argument."""
        return spec_of(self.args[place])

    def sizes(self, place: int) -> Tuple[Extent, ...]:
        """An argument that is a list of sizes."""
        arg = self.args[place]
        if not isinstance(arg, Extents):
            raise InvalidModelError("argument %d is not a list of sizes" % place)
        return arg.dims


def spec_of(arg: Any) -> Spec:
    if not isinstance(arg, (Ref, Const)):
        raise InvalidModelError("%r is not a tensor" % (arg,))
    return arg.spec


Rule = Callable[[Application], Sequence[Spec]]
#: Primitive -> its rule: the dtypes and physical shapes of the results, None for a size that nothing decides before run time.
RULES: Dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the inference rule of these primitives. Recording applies it, and the verifier applies it again."""

    def declare(function: Rule) -> Rule:
        RULES.update((name, function) for name in names)
        return function

    return declare


def primitive(kinds: str = "fiub", infer: Optional[Rule] = None) -> Callable[[F], F]:
    """Declare that a shim has to offer a primitive of this function's name; its docstring is the exact meaning. `infer`:
    its rule, where that is not in `primitives.rules`.
    """

    def declare(function: F) -> F:
        name = function.__name__
        PRIMITIVES[name] = Primitive(name, kinds, (function.__doc__ or "").strip())
        if infer is not None:
            RULES[name] = infer
        return function

    return declare


def elementwise_rule(dtype: Optional[DType] = None) -> Rule:
    """The rule of a primitive whose operands broadcast: of this dtype, or of that of the last operand."""

    def infer(at: Application) -> Sequence[Spec]:
        specs = [spec_of(arg) for arg in at.args]
        return [Spec(dtype or specs[-1].dtype, broadcast(*[spec.shape for spec in specs]))]

    return infer


# The integer arithmetic that shape computations are made of: folded also when some of the ints are symbols.
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
    """The results if every argument is known, by the reference; None otherwise.

    `args` are Tensors, lists of Tensors, lists of sizes, or None; axes in `params` are logical here.
    """
    from onnx_compat.reference import REFERENCE

    symbolic = False
    for tensor in _tensors(args):
        if tensor.value is None:
            return None
        symbolic = symbolic or not tensor.known
    symbolic = symbolic or not all(is_static(size) for arg in args if isinstance(arg, Extents) for size in arg.dims)
    if symbolic and name not in _SYMBOLIC:
        return None
    try:
        results = getattr(REFERENCE, name)(*[_plain(arg) for arg in args], **params)
    except Undecided:
        return None
    except (IndexError, TypeError, ValueError) as error:
        if symbolic:  # a size of the result is itself a symbol: not a thing that numpy can build
            return None
        if isinstance(error, TypeError):
            raise
        raise InvalidModelError("'%s' is not possible with these values: %s" % (name, error)) from error
    if not isinstance(results, tuple):
        results = (results,)
    if symbolic:
        results = [np.asarray(array, object) for array in results]
    return tuple(_tensor(REFERENCE.finish(array, dtype), dtype) for array, dtype in zip(results, dtypes))


def _tensors(args: Sequence[Any]) -> List[Tensor]:
    flat: List[Tensor] = []
    for arg in args:
        if isinstance(arg, Tensor):
            flat.append(arg)
        elif isinstance(arg, (list, tuple)):
            flat.extend(_tensors(arg))
    return flat


def _plain(arg: Any) -> Any:
    if isinstance(arg, Tensor):
        return arg.value
    if isinstance(arg, Extents):
        return KnownSizes(arg.dims)
    if isinstance(arg, (list, tuple)):
        return [_plain(item) for item in arg]
    return arg


class KnownSizes:
    """What an emitter's method gets for a list of sizes, when all of them are numbers (see emission.Sizes)."""

    def __init__(self, dims: Sequence[Extent]) -> None:
        self.dims = tuple(dims)
        self.known = self.with_wildcard = self.scalars = self.dims


def _tensor(array: np.ndarray, dtype: DType) -> Tensor:
    if array.dtype == object and dtype.kind != "s" and not any(isinstance(v, Dim) for v in array.reshape(-1)):
        array = array.astype(dtype.numpy)
    elif array.dtype not in (object, dtype.numpy):
        raise AssertionError("the reference gave %s for %s" % (array.dtype, dtype.name))
    return Tensor(dtype, array.shape, array)


def apply_primitive(
    name: str,
    args: Sequence[Any],
    params: Dict[str, Any],
    orders: Sequence[Order] = (None,),
    regions: Sequence[Region] = (),
) -> List[Tensor]:
    """Record a primitive on physical arguments; its rule gives the results' types, `orders` says how each is stored."""
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
    """Record a native, which has no rule, on physical arguments; `specs` are logical, `orders` say how each result is stored."""
    physical = [Spec(spec.dtype, permute_shape(spec.shape, order)) for spec, order in zip(specs, orders)]
    refs = current_trace().record(name, args, params, physical, regions)
    return [result(ref, order) for ref, order in zip(refs, orders)]


def result(ref: Ref, order: Order = None) -> Tensor:
    """The Tensor of a recorded value that is stored in `order`."""
    shape = list(ref.spec.shape)
    if order is not None:
        for place, axis in enumerate(order):
            shape[axis] = ref.spec.shape[place]
    return Tensor(ref.spec.dtype, shape, ref=ref, order=order)


def broadcast(*shapes: Sequence[Extent]) -> Tuple[Extent, ...]:
    """The shape that these have in common by numpy's rule; where two unknown sizes meet, whichever can be told."""
    rank = max(len(shape) for shape in shapes)
    merged: List[Any] = []
    for axis in range(rank):
        extents = [shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0]
        merged.append(_meet(extents, shapes))
    return tuple(merged)


def _meet(extents: Sequence[Extent], shapes: Sequence[Sequence[Extent]]) -> Any:
    different: List[Extent] = []
    for extent in extents:
        if not is_equal(extent, 1) and not any(is_equal(extent, other) for other in different):
            different.append(extent)
    numbers = [extent for extent in different if is_static(extent)]
    if len(numbers) > 1:
        raise InvalidModelError(
            "the shapes %s do not broadcast together" % " and ".join(str(list(shape)) for shape in shapes)
        )
    if len(different) <= 1:
        return different[0] if different else 1
    if numbers:  # the unknown one is this number or one (or the model is wrong, and fails when it runs)
        return numbers[0]
    return _largest(different)


def _largest(different: Sequence[Extent]) -> Any:
    """Of sizes that must be equal or one: min(512, n) beside n is n; otherwise nothing can be told (None)."""
    for extent in different:
        others = [other for other in different if other is not extent]
        if all(is_at_most(other, extent) for other in others):
            return extent
    return None
