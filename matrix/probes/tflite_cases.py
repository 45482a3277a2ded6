# mypy: disable-error-code="misc"
"""Models of a single operator, to probe TFLite kernels: their inputs, and the outputs that numpy computes.

A case is found by (operator, feature). The feature names a special use: "rank 5", "broadcast", "int64 axis"; it is ""
for the plain use. Each case is built for every dtype that it lists.

Values include halves, for rounding, and negative numbers. Integers include a number that no float of the same width can
hold, to detect kernels that compute in floats.
"""

import itertools
import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from onnx_compat_tflite import flatbuffer as fb

Array = Any  # an array of any dtype, or a list or number that numpy converts

FLOATS = ["float32", "float16", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS = FLOATS + INTEGERS
EVERY = [*NUMBERS, "bool", "string", "complex64"]


class Case(NamedTuple):
    """A model of one operator: its run-time inputs, the expected outputs, and the options of the operator.

    `constants`: position among all operands -> constant operand.
    """

    inputs: List[Array]
    outputs: List[Array]
    options: Dict[str, Any]
    constants: Dict[int, Array]


def case(inputs: List[Array], outputs: Any, **options: Any) -> Case:
    """Return a case. `inputs`: all operands, in order; those that are wrapped in `known` become constants.

    `outputs`: the expected array, or a list of arrays. `options`: the options of the operator.
    """
    expected = outputs if isinstance(outputs, list) else [outputs]
    constants = {position: item.value for position, item in enumerate(inputs) if isinstance(item, known)}
    return Case([item for item in inputs if not isinstance(item, known)], expected, options, constants)


class known:  # noqa: N801 - reads as a marker
    """Marks an operand as a constant of the model."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)


def ints(*values: int, dtype: str = "int32") -> known:
    """Return a constant operand: a vector of these integers."""
    return known(np.array(values, dtype))


def sample(dtype: str, shape: Tuple[int, ...] = (2, 3), small: bool = False, seed: int = 0) -> Array:
    """Return an array of random values; the same `seed` gives the same values.

    Floats are multiples of 0.5, up to 3.5 in magnitude; integers are at most 4. Unless `small`, the first element of 32
    or 64 bit integers is an integer that no float of this width can hold.
    """
    rng = np.random.RandomState(seed)
    count = int(np.prod(shape))
    if dtype == "string":
        return np.array(["s%d" % k for k in rng.randint(0, 5, count)], dtype=object).reshape(shape)
    if dtype == "bool":
        return np.asarray(rng.randint(0, 2, shape)).astype(bool)
    if dtype.startswith(("float", "complex")):
        values = np.asarray(rng.randint(-7, 8, shape)) / 2.0
        return np.asarray(values * (1 + 1j) if dtype == "complex64" else values).astype(dtype)
    values = np.asarray(rng.randint(0 if dtype[0] == "u" else -4, 5, shape)).astype(dtype)
    width = np.dtype(dtype).itemsize
    if not small and width >= 4 and count:
        values.reshape(-1)[0] = 2 ** (24 if width == 4 else 53) + 1
    return values


def positive(dtype: str, shape: Tuple[int, ...] = (2, 3), seed: int = 1) -> Array:
    """Return an array of random values above 0; the same `seed` gives the same values."""
    values = np.asarray(np.random.RandomState(seed).randint(1, 8, shape))
    return (values / 2.0 if dtype.startswith("float") else values % 4 + 1).astype(dtype)


def build(operator: str, case: Case, version: Optional[int] = None) -> bytes:
    """Return a .tflite file with the operator of a case.

    `version`: the operator version; None: the version that its types need.
    """
    graph = fb.SubGraph(name="main")
    total = len(case.inputs) + len(case.constants)
    run_time_inputs = iter(case.inputs)
    indices = []
    for position in range(total):
        value = case.constants.get(position)
        array = np.asarray(next(run_time_inputs)) if value is None else value
        index = graph.add(fb.TensorSpec("i%d" % position, name_of(array), array.shape, value))
        indices.append(index)
        if value is None:
            graph.inputs.append(index)
    for value in case.outputs:
        array = np.asarray(value)
        graph.outputs.append(graph.add(fb.TensorSpec("o%d" % len(graph.tensors), name_of(array), array.shape)))
    graph.operators.append(fb.OperatorSpec(operator, indices, list(graph.outputs), case.options, version))
    return fb.to_bytes(fb.ModelSpec([graph]))


def name_of(value: Array) -> str:
    """Return the name of an array's dtype in a .tflite file: `string` for an array of objects."""
    return "string" if value.dtype == object else str(value.dtype.name)


CASES: Dict[Tuple[str, str], Tuple[List[str], Callable[[str], Case]]] = {}


def add(operator: str, feature: str, dtypes: List[str], make: Callable[[str], Case]) -> None:
    """Add (operator, feature) to CASES, with a case for each of `dtypes`. `make`: function from a dtype to its case."""
    CASES[operator, feature] = dtypes, make


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / np.sqrt(2)))


def _softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x.astype(np.float64))
    return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


UNARY: Dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "NEG": np.negative,
    "EXP": np.exp,
    "SIN": np.sin,
    "COS": np.cos,
    "TANH": np.tanh,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND": np.round,
    "SQUARE": lambda x: x * x,
    "RELU": lambda x: np.maximum(x, x.dtype.type(0)),
    "RELU6": lambda x: np.clip(x, x.dtype.type(0), x.dtype.type(6)),
    "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "GELU": _gelu,
    "SIGN": np.sign,
    "ZEROS_LIKE": np.zeros_like,
    "STABLEHLO_CBRT": np.cbrt,
}
ON_INTEGERS = ("ABS", "NEG", "SQUARE", "RELU", "RELU6", "SIGN", "ZEROS_LIKE")
for _name, _function in UNARY.items():
    for _feature, _shape in {"": (2, 3), "rank 6": (1, 2, 1, 2, 1, 3), "scalar": (), "empty": (0, 3)}.items():

        def _unary(d: str, f: Any = _function, shape: Any = _shape, small: bool = _name == "SQUARE") -> Case:
            return case([sample(d, shape, small)], np.asarray(f(sample(d, shape, small))).astype(d))

        add(_name, _feature, NUMBERS if _name in ON_INTEGERS else FLOATS, _unary)
ROOTS: Dict[str, Callable[[Array], Array]] = {"LOG": np.log, "SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x)}
for _name, _function in ROOTS.items():
    add(_name, "", FLOATS, lambda d, f=_function: case([positive(d)], f(positive(d)).astype(d)))
add("ROUND", "halves", FLOATS, lambda d: case([np.array([0.5, 1.5, 2.5, -0.5], d)], np.array([0, 2, 2, -0.0], d)))
add(
    "LEAKY_RELU",
    "",
    NUMBERS,
    lambda d: case([sample(d)], np.where(sample(d) < 0, sample(d) * 0.5, sample(d)).astype(d), alpha=0.5),
)
add("LOGICAL_NOT", "", ["bool"], lambda d: case([sample(d)], ~sample(d)))
add("COMPLEX_ABS", "", ["complex64"], lambda d: case([sample(d)], np.abs(sample(d))))
add("REAL", "", ["complex64"], lambda d: case([sample(d)], sample(d).real.copy()))
add("IMAG", "", ["complex64"], lambda d: case([sample(d)], sample(d).imag.copy()))

BINARY: Dict[str, Tuple[List[str], Callable[[Array, Array], Array], bool]] = {
    "ADD": ([*NUMBERS, "complex64"], np.add, False),
    "SUB": ([*NUMBERS, "complex64"], np.subtract, False),
    "MUL": ([*NUMBERS, "complex64"], np.multiply, True),
    "DIV": (NUMBERS, lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype), True),
    "FLOOR_DIV": (NUMBERS, np.floor_divide, True),
    "FLOOR_MOD": (NUMBERS, np.mod, True),
    "MAXIMUM": (NUMBERS, np.maximum, False),
    "MINIMUM": (NUMBERS, np.minimum, False),
    "POW": (NUMBERS, np.power, True),
    "SQUARED_DIFFERENCE": (NUMBERS, lambda a, b: (a - b) * (a - b), True),
    "ATAN2": (FLOATS, np.arctan2, False),
    "LOGICAL_AND": (["bool"], np.logical_and, False),
    "LOGICAL_OR": (["bool"], np.logical_or, False),
    "BITWISE_XOR": ([*INTEGERS, "bool"], np.bitwise_xor, False),
    "RIGHT_SHIFT": (INTEGERS, np.right_shift, True),
    "EQUAL": (EVERY, lambda a, b: np.asarray(a == b, bool), False),
    "NOT_EQUAL": (EVERY, lambda a, b: np.asarray(a != b, bool), False),
    "LESS": (NUMBERS, np.less, False),
    "LESS_EQUAL": (NUMBERS, np.less_equal, False),
    "GREATER": (NUMBERS, np.greater, False),
    "GREATER_EQUAL": (NUMBERS, np.greater_equal, False),
}
SHAPES = {
    "": ((2, 3), (2, 3)),
    "broadcast": ((2, 3, 4), (3, 1)),
    "rank 5": ((1, 2, 1, 2, 3), (1, 2, 1, 2, 3)),
    "broadcast rank 5": ((1, 2, 1, 2, 3), (2, 1, 3)),
    "broadcast rank 6": ((1, 2, 1, 2, 3, 2), (2, 1, 1, 2)),
    "scalar": ((2, 3), ()),
    "scalars": ((), ()),
    "empty": ((0, 3), (0, 3)),
    "empty broadcast": ((0, 3), (1, 3)),
}


def _binary(dtype: str, function: Callable[[Array, Array], Array], small: bool, shapes: Tuple[Any, Any]) -> Case:
    """Return a case of an operator with two operands of these shapes. With `small`, the second operand is above 0."""
    a, b = sample(dtype, shapes[0], small), positive(dtype, shapes[1]) if small else sample(dtype, shapes[1], small, 3)
    if function is np.power:
        a = positive(dtype, shapes[0])
    with np.errstate(all="ignore"):
        return case([a, b], np.asarray(function(a, b)))


for (_name, (_dtypes, _combine, _small)), (_feature, _shapes) in itertools.product(BINARY.items(), SHAPES.items()):
    add(_name, _feature, _dtypes, lambda d, f=_combine, small=_small, s=_shapes: _binary(d, f, small, s))
