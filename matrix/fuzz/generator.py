"""Generator: a seed gives a case, or the reason why its graph is not used."""

from __future__ import annotations

import random
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

import matrix.fuzz.templates  # noqa: F401 - registers the templates
from matrix.fuzz.draft import Draft, Shared, port_of
from matrix.fuzz.draw import Draw
from matrix.fuzz.graphs import Case, Graph, Run, free_names
from matrix.fuzz.oracle import OracleError, check_oracles
from matrix.fuzz.registry import TEMPLATES, Template
from matrix.fuzz.values import Rejected, Value, noise_level

__all__ = ["OPSETS", "Generated", "generate", "grow"]

OPSETS = range(13, 27)
"""The opsets: from 13 to the newest that onnxruntime runs."""
_MOST_OUTPUTS = 8
_TRIES = 12
"""Attempts for each node."""
_SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6, 8)
ATOL = 1e-4
"""The absolute tolerance, as a share of the largest magnitude of the output."""


class Generated(NamedTuple):
    """The case of a seed; or None, with the reason why the seed gives no case."""

    case: Optional[Case]
    reason: str = ""


def generate(seed: int, largest: int = 16) -> Generated:
    """Generate the case of a seed, with at most `largest` templates outside of bodies.

    The result has a reason in place of a case if the graph has no output, or if the oracles refuse it or disagree.
    """
    rng = random.Random(seed)  # noqa: S311 - not for cryptography
    opset = rng.choice(OPSETS) if rng.random() < 0.7 else rng.choice((13, 17, 21))
    worlds = 2 if rng.random() < 0.6 else 1
    noise = np.random.RandomState(rng.randrange(2**31))
    shared = Shared(rng, noise, opset, worlds, rng.random() < 0.03, [], {})
    draw = Draw(Draft(shared))
    _add_inputs(draw)
    grow(draw, rng.randint(1, largest) if rng.random() < 0.8 else rng.randint(1, 4))
    try:
        case = _finish(draw, seed)
    except Rejected as rejected:
        return Generated(None, str(rejected))
    try:
        check_oracles(case)
    except OracleError as error:
        return Generated(None, "oracle: %s" % error)
    return Generated(case)


def grow(draw: Draw, count: int) -> None:
    """Add the nodes of up to `count` templates to the draft of `draw`; fewer if too many attempts are rejected.

    Each call draws from its own random selection of the templates, so that graphs differ.
    """
    known = [entry for entry in TEMPLATES.values() if entry.since <= draw.opset]
    share = draw.choice([0.2, 0.5, 1.0])
    selected = [entry for entry in known if entry.name == "Transpose" or draw.chance(share)]
    weights = [entry.weight for entry in selected]
    added = 0
    for _ in range(count * _TRIES):
        added += attempt(draw, draw.rng.choices(selected, weights)[0])
        if added >= count:
            return


def attempt(draw: Draw, entry: Template) -> bool:
    """Add the nodes of a template to the draft of `draw`. Return False, and add nothing, if one of them is rejected."""
    before = _Snapshot(draw.draft)
    try:
        entry.grow(draw)
    except Rejected:
        before.restore()
        return False
    return True


class _Snapshot:
    """Stores the state of a draft and of the drafts around it; `restore` resets all of them to that state."""

    def __init__(self, draft: Optional[Draft]) -> None:
        self._states: List[Tuple[Draft, Tuple[int, int, int], Dict[str, np.ndarray]]] = []
        self._symbols = dict(draft.shared.symbols) if draft else {}
        self._readers = [(value, value.readers) for value in draft.visible] if draft else []
        while draft is not None:
            sizes = len(draft.inputs), len(draft.nodes), len(draft.values)
            self._states.append((draft, sizes, dict(draft.initializers)))
            draft = draft.outer

    def restore(self) -> None:
        """Remove the inputs, nodes, values, initializers, symbols and readers that were added after the snapshot."""
        for draft, (inputs, nodes, values), initializers in self._states:
            del draft.inputs[inputs:], draft.nodes[nodes:], draft.values[values:]
            draft.initializers.clear()
            draft.initializers.update(initializers)
            draft.shared.symbols.clear()
            draft.shared.symbols.update(self._symbols)
        for value, readers in self._readers:
            value.readers = readers


def _add_inputs(draw: Draw) -> None:
    """Add one to three inputs of random rank (1 to 5, mostly 4), dtype (mostly float32) and sizes.

    With several worlds, one or two axes of an input have other sizes in each world. If empty values are allowed, an
    axis may have size 0.
    """
    for _ in range(draw.choice([1, 1, 2, 3])):
        rank = draw.choice([1, 2, 3, 3, 4, 4, 4, 4, 4, 5])
        dtype = draw.choice(["float32"] * 8 + ["int64", "int32", "float64", "uint8", "int8", "bool", "object"])
        sizes = [draw.choice(_SIZES) for _ in range(rank)]
        if draw.shared.allow_empty and draw.chance(0.5):
            sizes[draw.integer(0, rank - 1)] = 0
        shapes = [list(sizes) for _ in range(draw.shared.worlds)]
        if draw.shared.worlds > 1:
            for axis in draw.rng.sample(range(rank), draw.integer(1, min(2, rank))):
                for shape in shapes[1:]:
                    shape[axis] = draw.choice([size for size in (1, 2, 3, 4, 6, 7, 9) if size != sizes[axis]])
        draw.add_input([draw.data(tuple(shape), dtype) for shape in shapes])


def _finish(draw: Draw, seed: int) -> Case:
    """Return the case of the finished graph, with at most `_MOST_OUTPUTS` outputs.

    The outputs are results that no node reads, and sometimes further results. Raises Rejected if there is no output.
    """
    draft = draw.draft
    own = {name for node in draft.nodes for name in node.outputs}
    results = [value for value in draft.values if value.name in own]
    outputs = [value for value in results if not value.readers or draw.chance(0.15)]
    if not outputs:
        raise Rejected("no output")
    outputs = draw.rng.sample(outputs, min(len(outputs), _MOST_OUTPUTS))
    nodes = tuple(draft.nodes)
    needed = free_names(nodes)
    inputs = [value for value in draft.inputs if value.name in needed]
    graph = Graph(
        tuple(port_of(value, draft.input_dims[value.name]) for value in inputs),
        tuple(port_of(value) for value in outputs),
        nodes,
        {name: array for name, array in draft.initializers.items() if name in needed},
    )
    runs = [_run(world, inputs, outputs) for world in range(draft.shared.worlds)]
    return Case(seed, draft.shared.opset, graph, tuple(runs))


def _run(world: int, inputs: List[Value], outputs: List[Value]) -> Run:
    """Return the run of one world: its feeds, the expected outputs and their tolerances. Nothing is executed."""
    feeds = {value.name: value.samples[world].array for value in inputs}
    expected = {value.name: value.samples[world].array for value in outputs}
    atol = {value.name: _atol(value.samples[world].array, value.samples[world].shaken) for value in outputs}
    return Run(feeds, expected, atol)


def _atol(array: Any, shaken: Any) -> float:
    """Return the absolute tolerance of an output: a share of its largest magnitude plus a multiple of its noise.

    `shaken`: the output with noise. Returns 0.0 for an output that is no float or is empty. For a sequence, returns the
    greatest tolerance of an item.
    """
    if isinstance(array, list):
        return max([_atol(item, noisy) for item, noisy in zip(array, shaken)] or [0.0])
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    magnitude = float(np.abs(array).max())
    return float("%.1e" % (ATOL * max(magnitude, 0.05) + 20 * noise_level(array, shaken)))
