"""The graph under construction: it evaluates each node when it is added, in all worlds, and rejects what is not certain."""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from matrix.fuzz.evaluation import evaluate
from matrix.fuzz.graphs import UNKNOWN, Node, Port, Size
from matrix.fuzz.values import NOISE, Rejected, Sample, Value, check_range, noise_level

__all__ = ["GRID", "MOVE", "SMOOTH", "STEP", "Draft", "Rule", "Shared", "port_of"]

Rule = Callable[[Sequence[Value]], bool]
"""Whether the results of a node over these operands are exact; raises Rejected for operands that the operator cannot take."""


def MOVE(operands: Sequence[Value]) -> bool:  # noqa: N802 - a constant for templates
    """Return whether the result of an operator that selects, moves or compares is exact: if all operands are exact."""
    return all(operand.exact for operand in operands)


def GRID(operands: Sequence[Value]) -> bool:  # noqa: N802 - a constant for templates
    """Return whether a sum or product is exact: if all operands are tensors on the grid."""
    return all(operand.container == "" and operand.is_on_grid for operand in operands)


def SMOOTH(_operands: Sequence[Value]) -> bool:  # noqa: N802 - a constant for templates
    """Return whether the result of an operator that rounds is exact: always False."""
    return False


def STEP(operands: Sequence[Value]) -> bool:  # noqa: N802 - a constant for templates
    """Return whether the result of a discontinuous operator is exact: always True.

    Raises Rejected if an operand is not exact, because its noise could change the result beyond any tolerance.
    """
    if not all(operand.exact for operand in operands):
        raise Rejected("discontinuous")
    return True


class Shared(NamedTuple):
    """The state of the whole graph, which its draft and the drafts of its bodies share.

    - rng: the generator of all random choices.
    - noise: the generator of the random noise.
    - worlds: the number of worlds (see `values`).
    - allow_empty: whether a value may have no elements.
    """

    rng: random.Random
    noise: np.random.RandomState
    opset: int
    worlds: int
    allow_empty: bool
    names: List[str]
    """The names that were given."""
    symbols: Dict[Tuple[int, ...], str]
    """The sizes of an open axis in each world -> its symbol."""


class Draft:
    """A graph, or the body of a node, under construction.

    `outer`: the draft of the graph around a body; None for the whole graph. A node that must not be in the graph raises
    Rejected (see `append`).
    """

    def __init__(self, shared: Shared, outer: Optional[Draft] = None) -> None:
        self.shared = shared
        self.outer = outer
        self.inputs: List[Value] = []
        self.input_dims: Dict[str, Tuple[Size, ...]] = {}
        self.initializers: Dict[str, np.ndarray] = {}
        self.nodes: List[Node] = []
        self.values: List[Value] = []

    @property
    def visible(self) -> List[Value]:
        """The values that a node may read: also those of the graphs around this body."""
        return self.values if self.outer is None else self.outer.visible + self.values

    def name(self, prefix: str) -> str:
        """Return a new name that begins with `prefix`. It is unique in the whole graph."""
        name = "%s%d" % (prefix, len(self.shared.names))
        self.shared.names.append(name)
        return name

    def add_input(self, samples: Sequence[Any], dims: Optional[Tuple[Size, ...]], exact: bool = True) -> Value:
        """Add an input with its array in each world, and return its value.

        - samples: the array in each world.
        - dims: the declared sizes, with a symbol for each open size; None declares no sizes.
        - exact: whether the arrays have no rounding error.
        """
        value = Value(self.name("x"), [Sample(array, array) for array in samples], exact)
        self.inputs.append(value)
        if dims is not None:
            self.input_dims[value.name] = dims
        self.values.append(value)
        return value

    def add_initializer(self, array: np.ndarray) -> Value:
        """Add a constant, and return its value. It is the same in all worlds."""
        value = Value(self.name("w"), [Sample(array, array)] * self.shared.worlds, True)
        self.initializers[value.name] = array
        self.values.append(value)
        return value

    def append(
        self, operator: str, inputs: Sequence[Optional[Value]], rule: Rule, count: int, domain: str, attributes: Dict[str, Any],
        captured: Sequence[Value] = (),
    ) -> List[Value]:  # fmt: skip
        """Add a node with `count` outputs, and return these. The node is computed in each world.

        - inputs: the operands; None for an optional input that is absent.
        - rule: decides whether the outputs are exact.
        - captured: the values around the bodies in `attributes` that these bodies read.

        Raises Rejected, and adds nothing, if `rule` or a check of an output raises it, or if no evaluator computes the
        node.
        """
        operands = [value for value in [*inputs, *captured] if value is not None]
        exact = rule(operands)
        names = tuple(self.name("v") for _ in range(count))
        node = Node(operator, tuple(value.name if value else "" for value in inputs), names, attributes, domain)
        results = self._compute(node, operands)
        if rule is GRID:
            self._check_width(node, operands, results)
        outputs = []
        for index, name in enumerate(names):
            samples = [self._sample(plain[index], shaken[index], exact) for plain, shaken in results]
            container = "sequence" if isinstance(samples[0].array, list) else ""
            value = Value(name, samples, exact or _is_discrete(samples[0].array), container)
            _check_agreement(value)
            outputs.append(value)
        for value in operands:
            value.readers += 1
        self.nodes.append(node)
        self.values += outputs
        return outputs

    def _compute(self, node: Node, operands: Sequence[Value]) -> List[Tuple[List[Any], List[Any]]]:
        """Return a pair for each world: the outputs of a node without and with the noise of its operands.

        Both are the same list if no operand has noise.
        """
        ports = {value.name: port_of(value) for value in operands}
        inexact = any(sample.shaken is not sample.array for value in operands for sample in value.samples)
        feeds: List[Dict[str, Any]] = []
        for world in range(self.shared.worlds):
            feeds.append({value.name: value.samples[world].array for value in operands})
            if inexact:
                feeds.append({value.name: value.samples[world].shaken for value in operands})
        results = evaluate(node, self.shared.opset, feeds, ports)
        if not inexact:
            return [(result, result) for result in results]
        return list(zip(results[::2], results[1::2]))

    def _sample(self, plain: Any, shaken: Any, exact: bool) -> Sample:
        """Return the sample of a result: `plain`, and `shaken` with noise for the rounding of the result itself.

        `shaken` is the result for operands with noise. An `exact` result is its own `shaken`. Raises Rejected for a
        result of None, out of range (see `check_range`), or with too much noise (see `noise_level`).
        """
        check_range(plain, self.shared.allow_empty)
        if plain is None:
            raise Rejected("nothing")
        if exact:
            return Sample(plain, plain)
        if isinstance(plain, list):
            if len(plain) != len(shaken):
                raise Rejected("noise")
            pairs = [self._sample(item, noisy, False) for item, noisy in zip(plain, shaken)]
            return Sample([pair.array for pair in pairs], [pair.shaken for pair in pairs])
        if plain.dtype.kind == "f":
            signs = self.shared.noise.uniform(-1, 1, plain.shape)
            shaken = (shaken * (1 + NOISE * signs)).astype(plain.dtype)
        noise_level(plain, shaken)
        return Sample(plain, shaken)

    def _check_width(
        self, node: Node, operands: Sequence[Value], results: Sequence[Tuple[List[Any], List[Any]]]
    ) -> None:
        """Raise Rejected if the first output of a node overflows its integers: float64 operands give other numbers.

        Only nodes with an integer output, an integer operand and no bool operand are checked. `results`: for each
        world, the outputs without and with noise.
        """
        if not any(value.is_integer for value in operands):
            return
        if results[0][0][0].dtype.kind not in "iu" or any(value.dtype == "bool" for value in operands):
            return
        ports = {value.name: port_of(value)._replace(dtype="float64") for value in operands}
        feeds = [
            {value.name: value.samples[k].array.astype(np.float64) for value in operands} for k in range(len(results))
        ]
        for (plain, _), wide in zip(results, evaluate(node, self.shared.opset, feeds, ports)):
            if not np.array_equal(plain[0].astype(np.float64), wide[0]):
                raise Rejected("overflow")


def port_of(value: Value, dims: Optional[Tuple[Size, ...]] = None) -> Port:
    """Return the port of a value. `dims`: the sizes that it declares.

    None: it declares the sizes that are equal in all worlds; the other sizes are "?". The port of a sequence has no
    shape.
    """
    if value.container:
        return Port(value.name, value.dtype, None, value.container)
    known = tuple(UNKNOWN if size is None else size for size in value.dims)
    return Port(value.name, value.dtype, known if dims is None else dims)


def _is_discrete(array: Any) -> bool:
    """Whether a result is a tensor without floats. After the check that noise does not change it, it is exact."""
    return not isinstance(array, list) and array.dtype.kind != "f"


def _check_agreement(value: Value) -> None:
    """Raise Rejected if the worlds differ in the rank or the type of a tensor.

    A sequence is rejected if its items, of all worlds, differ in type, or if it is empty in a world.
    """
    if value.container:
        if any(not array for array in value.arrays):
            raise Rejected("empty sequence")
        if len({item.dtype for array in value.arrays for item in array}) > 1:
            raise Rejected("types")
        return
    if len({(array.ndim, array.dtype) for array in value.arrays}) > 1:
        raise Rejected("ranks")
