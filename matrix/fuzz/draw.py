"""Random choices of a template: operands among the values, new operands, attributes, and nodes."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from matrix.fuzz.draft import MOVE, Draft, Rule, Shared
from matrix.fuzz.graphs import Size
from matrix.fuzz.values import Rejected, Value

__all__ = ["FLOATS", "INTEGERS", "Draw"]

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64", "int8", "uint8")
_RECENT = 4
_WORDS = ("", "a", "b", "ab", "Hello", "hello world", "x y  z", "é", "日本", "a,b,c", "UPPER", "0", "42", "-1.5")


class Draw:
    """The random choices of templates for one draft: operands, attributes and nodes.

    A method that has nothing to choose from raises Rejected. `depth`: the number of bodies around the nodes of the
    draft; 0: the draft is the whole graph.
    """

    def __init__(self, draft: Draft, depth: int = 0) -> None:
        self.draft = draft
        self.shared: Shared = draft.shared
        self.rng: random.Random = draft.shared.rng
        self.opset = draft.shared.opset
        self.depth = depth

    # -- plain choices -------------------------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        """Return True with this probability, else False."""
        return self.rng.random() < probability

    def choice(self, options: Sequence[Any]) -> Any:
        """Return an element of `options`. Raises Rejected without an option."""
        if not options:
            raise Rejected("no option")
        return self.rng.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included. Raises Rejected if `low` is greater than `high`."""
        if low > high:
            raise Rejected("no number")
        return self.rng.randint(low, high)

    def permutation(self, count: int) -> List[int]:
        """Return the numbers below `count` in a random order; often 1 is last, or the last number is second."""
        order = list(range(count))
        if count >= 3 and self.chance(0.5):
            return [0, *order[2:], 1] if self.chance(0.5) else [0, count - 1, *order[1:-1]]
        self.rng.shuffle(order)
        return order

    def axis(self, rank: int) -> int:
        """Return an axis, sometimes counted from the end. Raises Rejected for a scalar."""
        if not rank:
            raise Rejected("scalar")
        axis = self.integer(0, rank - 1)
        return axis - rank if self.chance(0.3) else axis

    # -- operands ------------------------------------------------------------------------------------------------------
    def pick(
        self, dtypes: Sequence[str] = FLOATS, ranks: Sequence[int] = range(7), where: Optional[Callable[[Value], bool]] = None,
        exact: bool = False, container: str = "",
    ) -> Value:  # fmt: skip
        """Return a value that meets all conditions; often a recent value, or a value that no node reads yet.

        - dtypes, ranks: the allowed dtypes and ranks of a tensor. They are ignored for another container.
        - where: a predicate that must be true of the value, or None.
        - exact: whether the value must be exact.
        - container: "" for a tensor, or "sequence".

        Raises Rejected if no value of the draft, or of the drafts around it, meets all conditions.
        """
        candidates = [
            value
            for value in self.draft.visible
            if value.container == container
            and (container or (value.dtype in dtypes and value.rank in ranks))
            and (value.exact or not exact)
            and (where is None or where(value))
        ]
        if self.chance(0.5):
            candidates = candidates[-_RECENT:]
        elif self.chance(0.5):
            candidates = [value for value in candidates if not value.readers] or candidates
        value = self.choice(candidates)
        assert isinstance(value, Value)
        return value

    def any(self, ranks: Sequence[int] = range(7), **options: Any) -> Value:
        """Return a tensor of any dtype, more often of floats. `options`: further arguments of `pick`.

        Raises Rejected if no value meets the conditions.
        """
        if self.chance(0.6):
            with contextlib.suppress(Rejected):
                return self.pick(FLOATS, ranks, **options)
        return self.pick((*FLOATS, *INTEGERS, "bool", "object"), ranks, **options)

    def fresh(self, shapes: Sequence[Tuple[int, ...]], dtype: str = "float32", low: int = -4, high: int = 4) -> Value:
        """Add a new operand with random data, and return it: mostly an initializer, sometimes an input of the graph.

        - shapes: the shape in each world. If the shapes differ, the operand is an input.
        - dtype: the dtype, by its name in numpy; "object" for strings.
        - low, high: the bounds of the elements. They are ignored for bools and strings.
        """
        arrays = [self.data(shape, dtype, low, high) for shape in shapes]
        if len(set(shapes)) == 1 and self.chance(0.75):
            return self.draft.add_initializer(arrays[0])
        return self.add_input(arrays)

    def add_input(self, arrays: Sequence[np.ndarray]) -> Value:
        """Add an input to the whole graph, with its array in each world, and return its value.

        A size that differs between worlds gets a symbol. In a case with one world, any size sometimes gets a symbol.
        """
        draft = self.draft
        while draft.outer is not None:
            draft = draft.outer
        dims: List[Size] = []
        for sizes in zip(*(array.shape for array in arrays)):
            is_open = len(set(sizes)) > 1 or (self.shared.worlds == 1 and self.chance(0.15))
            dims.append(self.symbol(tuple(sizes)) if is_open else sizes[0])
        return draft.add_input(arrays, tuple(dims))

    def symbol(self, sizes: Tuple[int, ...]) -> str:
        """Return the symbol of an open size. `sizes`: the size in each world; equal tuples have one symbol."""
        return self.shared.symbols.setdefault(sizes, "n%d" % len(self.shared.symbols))

    def constant(self, values: Any, dtype: str = "int64") -> Value:
        """Add a constant with these values, and return it: an initializer, sometimes the output of a Constant node."""
        array = np.array(values, dtype)
        if self.chance(0.3):
            return self.node("Constant", [], value=array)
        return self.draft.add_initializer(array)

    def data(self, shape: Tuple[int, ...], dtype: str = "float32", low: int = -4, high: int = 4) -> np.ndarray:
        """Return an array of random elements from `low` to `high`. Floats are multiples of 1/4, sometimes of 1.

        Unsigned integers are at least 0. The bounds are ignored for bools and for strings (`dtype` "object").
        """
        size = int(np.prod(shape, dtype=np.int64))
        if dtype == "object":
            texts = np.empty(size, object)
            texts[:] = [self.choice(_WORDS) for _ in range(size)]
            return texts.reshape(shape)
        if dtype == "bool":
            return np.array([self.chance(0.5) for _ in range(size)], bool).reshape(shape)
        if dtype.startswith("uint"):
            low = max(low, 0)
        step = 4 if dtype.startswith("float") and self.chance(0.7) else 1
        numbers = [self.integer(low * step, high * step) / step for _ in range(size)]
        return np.array(numbers, np.float64).astype(dtype).reshape(shape)

    def broadcastable(self, value: Value, dtype: Optional[str] = None, **limits: int) -> Value:
        """Return an operand that broadcasts to the shape of `value`: an existing value, or a new operand.

        In a new operand, some axes have size 1, and sometimes the first axes are missing. `dtype` None: the dtype of
        `value`. `limits`: the bounds `low` and `high` of the elements.
        """
        dtype = dtype or value.dtype
        # A bound holds in the first iteration of a loop only, so that in a body a bounded operand is new.
        if self.chance(0.6) and not (limits and self.depth):
            candidates = [
                operand
                for operand in self.draft.visible
                if not operand.container and operand.dtype == dtype and _broadcasts(operand, value)
            ]
            if limits:
                low, high = limits.get("low", -4), limits.get("high", 4)
                candidates = [v for v in candidates if all((a >= low).all() and (a <= high).all() for a in v.arrays)]
            if candidates:
                return self.choice(candidates)  # type: ignore[no-any-return]  # `choice` returns any element
        dropped = self.integer(0, value.rank) if self.chance(0.5) else 0
        unit_axes = [self.chance(0.4) for _ in range(value.rank)]
        shapes = [
            tuple(1 if is_one else size for is_one, size in zip(unit_axes, shape))[dropped:] for shape in value.shapes
        ]
        return self.fresh(shapes, dtype, **limits)

    # -- nodes ---------------------------------------------------------------------------------------------------------
    def node(self, operator: str, inputs: Sequence[Optional[Value]], rule: Rule = MOVE, **attributes: Any) -> Value:
        """Add a node of the default domain with one output, and return the output. An attribute None is left out.

        `rule`: decides whether the output is exact. Raises Rejected for an empty list as an attribute, and if `rule` or
        a check rejects the node.
        """
        return self.nodes(operator, inputs, 1, rule, **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[Optional[Value]], count: int, rule: Rule = MOVE, domain: str = "",
        captured: Sequence[Value] = (), **attributes: Any,
    ) -> List[Value]:  # fmt: skip
        """Add a node with `count` outputs, and return these. An attribute None is left out.

        - rule: decides whether the outputs are exact (see `draft.Rule`).
        - captured: the values around the bodies in `attributes` that these bodies read; empty without bodies.

        Raises Rejected for an empty list as an attribute, and if `rule` or a check rejects the node (see
        `Draft.append`).
        """
        given = {name: value for name, value in attributes.items() if value is not None}
        if any(value == [] for value in given.values() if isinstance(value, list)):
            raise Rejected("empty attribute")
        return self.draft.append(operator, inputs, rule, count, domain, given, captured)


def _broadcasts(operand: Value, value: Value) -> bool:
    """Whether an operand broadcasts to the shape of a value, in each world."""
    try:
        return all(
            np.broadcast(np.empty(mine, np.int8), np.empty(theirs, np.int8)).shape == theirs
            for mine, theirs in zip(operand.shapes, value.shapes)
        )
    except ValueError:
        return False
