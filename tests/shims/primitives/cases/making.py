"""Makes the cases: hypothesis draws shapes and parameters, and a drawn seed selects values.

A batch has one case of each flavour, so that every batch has empty tensors, symbolic sizes and NaN.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from hypothesis import strategies as st

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import PRIMITIVES
from onnx_compat.tracing.values import Tensor, lift

Array = Any
Shape = Tuple[int, ...]


class Flavour(NamedTuple):
    """The kind of a case.

    `sizes`: 'fixed'; 'named': symbolic, and equal sizes have one symbol; 'unknown': symbolic, all different. `shape`:
    'plain', 'ones' or 'empty'. `values`: 'plain', 'special' (NaN, infinities, -0.0) or 'extreme'.
    """

    sizes: str
    shape: str
    values: str


FLAVOURS = [
    Flavour("fixed", "plain", "plain"),
    Flavour("fixed", "plain", "special"),
    Flavour("fixed", "ones", "extreme"),
    Flavour("fixed", "empty", "plain"),
    Flavour("named", "plain", "special"),
    Flavour("unknown", "plain", "extreme"),
    Flavour("unknown", "ones", "plain"),
    Flavour("named", "empty", "plain"),
]

#: Those a primitive is tried with, by its kinds. The smallest ones only where no arithmetic is done.
_DTYPES = {
    "f": "float16 float32 float64 bfloat16",
    "i": "int8 int16 int32 int64",
    "u": "uint8 uint16 uint32 uint64",
    "b": "bool",
    "s": "string float8e4m3fn int4 uint4",
    "c": "complex64 complex128",
}


def dtypes_of(primitive: str) -> List[DType]:
    """Return the dtypes for which a primitive is tested."""
    kinds = PRIMITIVES[primitive].kinds
    if primitive == "cast":
        return [dtype for dtype in dtypes.ALL if dtype.kind in kinds]
    names = [name for kind in kinds for name in _DTYPES[kind].split()]
    if primitive.startswith("string") or primitive == "from_text":
        names = ["string"]
    if primitive == "image_decode":
        names = ["uint8"]
    if primitive in ("equal", "scatter_nd"):  # compares, combines
        names = [name for name in names if name not in ("float8e4m3fn", "int4", "uint4")]
    return [DType.of(name) for name in names]


class Input(NamedTuple):
    """An input of the program. The sizes of the axes in `known` are static in every flavour."""

    array: Array
    dtype: DType
    known: Tuple[int, ...]


class Case(NamedTuple):
    """An application of a primitive: `apply` takes a Tensor for each input, and returns the results.

    `ignored` marks unspecified elements of the first result; `check` replaces the comparison with the reference.
    """

    flavour: Flavour
    inputs: List[Input]
    apply: Callable[..., Any]
    description: str
    exact: bool
    ignored: Optional[Array]
    check: Optional[Callable[[List[Array]], None]]

    def __repr__(self) -> str:
        return "%s, %s" % (self.description, self.flavour)


Maker = Callable[["Making"], Any]
CASES: Dict[str, Maker] = {}
_TEXTS = ["", "a", "Bc", "Grüße", "日本", "ÉTÉ", "x y"]


def case(names: str) -> Callable[[Maker], Maker]:
    """Decorate a function that makes cases of these primitives (names separated by blanks) from a Making."""

    def declare(maker: Maker) -> Maker:
        CASES.update(dict.fromkeys(names.split(), maker))
        return maker

    return declare


class Making:
    """The state of a case while it is made: methods draw values and add inputs."""

    def __init__(self, draw: Any, name: str, dtype: DType, flavour: Flavour) -> None:
        self.name = name
        self.dtype = dtype
        self.flavour = flavour
        self.inputs: List[Input] = []
        self.notes: List[str] = []
        self.ignored: Optional[Array] = None
        self.exact = "s" in PRIMITIVES[name].kinds
        self.check: Optional[Callable[[List[Array]], None]] = None
        self._draw = draw
        self._rng = np.random.RandomState(draw(st.integers(0, 2**16)))

    # -- choices -----------------------------------------------------------------------------------------------------
    def choose(self, options: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def yes(self) -> bool:
        return bool(self._draw(st.booleans()))

    def note(self, **params: Any) -> Dict[str, Any]:
        """Keep parameters for the message of a failing case, and return them."""
        self.notes.extend("%s=%r" % item for item in params.items())
        return params

    # -- shapes ------------------------------------------------------------------------------------------------------
    def shape(self, low: int = 0, high: int = 4, least: int = 0) -> Shape:
        """Return a shape whose rank is from `low` to `high`, and whose sizes are at least `least`."""
        rank = self.number(min(max(low, 2 if self.flavour.shape == "plain" else 1), high), high)
        if self.flavour.values == "special" and low == 0 and self.yes():
            rank = 0
        sizes = [self.size() for _ in range(rank)]
        if self.flavour.shape == "empty" and rank:
            sizes[self.number(0, rank - 1)] = 0
        return tuple(max(size, least) for size in sizes)

    def size(self) -> int:
        return self.number(1, 2) if self.flavour.shape == "ones" else self.number(2, 5)

    def narrow(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts to `shape`: some sizes are 1, some leading axes are missing."""
        cut = self.number(0, len(shape)) if self.yes() else 0
        return tuple(1 if self.number(0, 3) == 3 else size for size in shape[cut:])

    # -- values ------------------------------------------------------------------------------------------------------
    def values(self, shape: Shape, dtype: Optional[DType] = None, values: Optional[str] = None) -> Array:
        dtype = dtype or self.dtype
        values = values or self.flavour.values
        if dtype.kind == "b":
            return self._rng.rand(*shape) < 0.5 if shape else np.asarray(self._rng.rand() < 0.5)
        if dtype.kind == "s":
            return _objects(self._rng.choice(_TEXTS, shape), shape)
        if dtype.kind in "iu":
            return self._integers(shape, dtype, values)
        if dtype.kind == "c":
            real, imaginary = self.normal(shape), self.normal(shape)
            return (real + 1j * imaginary).astype(dtype.numpy)
        array = self.normal(shape) * 3
        if values == "special":
            array = self.mix(array, [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])
        elif values == "extreme":
            array = self.mix(array, [dtype.max, dtype.min, 100.0, -100.0, 2.0**-12, 0.5, -0.5])
        return dtype.round(array)

    def normal(self, shape: Shape) -> Array:
        return np.asarray(self._rng.standard_normal(shape), np.float64)

    def within(self, shape: Shape, low: float, high: float, dtype: Optional[DType] = None) -> Array:
        """Return random numbers between two bounds, uniformly; for integers, both bounds are included."""
        dtype = dtype or self.dtype
        if dtype.kind in "iu":
            return np.asarray(self._rng.randint(int(low), int(high) + 1, shape), dtype.numpy)
        return dtype.round(np.asarray(self._rng.uniform(low, high, shape)))

    def mix(self, array: Array, replacements: Sequence[float]) -> Array:
        """Return the array with half of its elements replaced by random elements of `replacements`."""
        chosen = np.asarray(self._rng.choice(np.asarray(replacements), array.shape))
        return np.where(self._rng.random_sample(array.shape) < 0.5, chosen, array)

    def order(self, count: int) -> List[int]:
        return [int(k) for k in self._rng.permutation(count)]

    def _integers(self, shape: Shape, dtype: DType, values: str) -> Array:
        low, high = max(dtype.min, -5), min(dtype.max, 9)
        array = self._rng.randint(low, high + 1, shape)
        if values == "extreme":
            far = [dtype.min, dtype.max, dtype.max - 1, dtype.min + 1, dtype.max // 2 + 1, 0, 1]
            chosen = np.asarray(far, dtype.numpy)[self._rng.randint(0, len(far), shape)]
            return np.where(self._rng.random_sample(shape) < 0.6, chosen, np.asarray(array).astype(dtype.numpy))
        return np.asarray(array).astype(dtype.numpy)

    # -- inputs ------------------------------------------------------------------------------------------------------
    def feed(self, array: Array, dtype: Optional[DType] = None, known: Sequence[int] = ()) -> int:
        """Add an input of the program with this value, and return its position."""
        self.inputs.append(Input(array, dtype or self.dtype, tuple(axis % max(array.ndim, 1) for axis in known)))
        return len(self.inputs) - 1

    def feed_or_fix(self, array: Array, dtype: Optional[DType] = None, known: Sequence[int] = ()) -> Any:
        """Add an input or a constant with this value. Return a function from the Tensors of all inputs to its Tensor."""
        if self.yes():
            position = self.feed(array, dtype, known)
            return lambda tensors: tensors[position]
        self.notes.append("constant %s%s" % ((dtype or self.dtype).name, list(array.shape)))
        tensor = lift(array, dtype or self.dtype)
        return lambda _: tensor

    def perhaps(self, array: Array, known: Sequence[int] = ()) -> Any:
        """Add an input with this value, a constant, or nothing."""
        return self.feed_or_fix(array, known=known) if self.yes() else lambda _: None


def _objects(array: Array, shape: Shape) -> Array:
    out = np.empty(shape, object)
    for position in np.ndindex(*shape):
        out[position] = str(np.asarray(array)[position])
    return out


def _make_case(draw: Any, name: str, dtype: DType, flavour: Flavour) -> Case:
    making = Making(draw, name, dtype, flavour)
    applied = CASES[name](making)
    shapes = ", ".join("%s%s" % (case_input.dtype.name, list(case_input.array.shape)) for case_input in making.inputs)
    description = "%s(%s; %s)" % (name, shapes, ", ".join(making.notes))
    return Case(flavour, making.inputs, applied, description, making.exact, making.ignored, making.check)


def batches(name: str, dtype: DType) -> Any:
    """Return a strategy of hypothesis for batches: a case of each flavour. All cases of a batch form one program."""

    @st.composite
    def draw_batch(draw: Any) -> List[Case]:
        return [_make_case(draw, name, dtype, flavour) for flavour in FLAVOURS]

    return draw_batch()


def as_list(results: Any) -> List[Tensor]:
    return list(results) if isinstance(results, (list, tuple)) else [results]
