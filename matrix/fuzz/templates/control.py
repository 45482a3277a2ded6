"""Templates of branches and loops, whose bodies are random graphs over their own and captured values."""

from __future__ import annotations

from typing import List, Optional, Sequence

from matrix.fuzz.draft import Draft, port_of
from matrix.fuzz.draw import Draw
from matrix.fuzz.graphs import Graph, Port, free_names
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Sample, Value

_DEEPEST = 2


def _body(draw: Draw) -> Draw:
    """Return the Draw of a new, empty draft for the body of a node. Raises Rejected inside `_DEEPEST` nested bodies."""
    if draw.depth >= _DEEPEST:
        raise Rejected("depth")
    return Draw(Draft(draw.shared, draw.draft), draw.depth + 1)


def _grow(body: Draw, count: int) -> None:
    """Add the nodes of up to `count` random templates to a body."""
    from matrix.fuzz.generator import grow

    grow(body, count)


def _graph(body: Draft, inputs: Sequence[Value], outputs: Sequence[Value]) -> Graph:
    """Return the graph of a body. Its ports have types; only scalars have a shape, which onnxruntime requires."""
    return Graph(
        tuple(_port(value) for value in inputs),
        tuple(_port(value) for value in outputs),
        tuple(body.nodes),
        dict(body.initializers),
    )


def _port(value: Value) -> Port:
    """Return the port of a value, with a shape for a scalar only."""
    port = port_of(value)
    return port if port.shape == () else port._replace(shape=None)


def _captures(draw: Draw, *graphs: Graph) -> List[Value]:
    """Return the values, of the draft or of the drafts around it, that the bodies `graphs` read."""
    names = set()
    for graph in graphs:
        own = {port.name for port in graph.inputs} | set(graph.initializers)
        own |= {name for node in graph.nodes for name in node.outputs}
        names |= (free_names(graph.nodes) | {port.name for port in graph.outputs}) - own
    return [value for value in draw.draft.visible if value.name in names]


def _own_tensors(body: Draft) -> List[Value]:
    """Return the results of a body's own nodes that are tensors."""
    names = {name for node in body.nodes for name in node.outputs}
    return [value for value in body.values if value.name in names and not value.container]


def _alike(value: Value, other_value: Value) -> bool:
    """Whether both values are tensors of the same dtype and, in each world, of the same shape."""
    if value.container or other_value.container:
        return False
    return (value.dtype, value.shapes) == (other_value.dtype, other_value.shapes)


def _exact_of(values: Sequence[Value]) -> bool:
    """Whether all these values are exact."""
    return all(value.exact for value in values)


@template("If", 1.5)
def if_(draw: Draw) -> None:
    """Add an If whose branches give values of the same type and shape."""
    worlds = draw.shared.worlds
    try:
        condition = draw.pick(("bool",), [0])
    except Rejected:
        flag = draw.data((), "bool")
        condition = draw.add_input([flag] * worlds) if draw.chance(0.7) else draw.constant(flag, "bool")
    bodies = [_body(draw), _body(draw)]
    for body in bodies:
        _grow(body, draw.integer(1, 3))
    first = draw.choice(_own_tensors(bodies[0].draft))
    second = _match(bodies[1], first)
    results = (first, second) if draw.chance(0.5) else (second, first)
    if results[0] is second:
        bodies.reverse()
    graphs = [_graph(body.draft, [], [value]) for body, value in zip(bodies, results)]

    def rule(operands: Sequence[Value]) -> bool:
        return _exact_of([*operands, *results])

    draw.nodes(
        "If", [condition], 1, rule, captured=_captures(draw, *graphs), then_branch=graphs[0], else_branch=graphs[1]
    )


def _match(body: Draw, value: Value) -> Value:
    """Return a result of a node in a body, with the dtype and the shape of `value`.

    Without such a result, and sometimes in place of it, an Identity of another visible value is added to the body; or a
    Constant, if there is no such value. Raises Rejected if a Constant is needed for strings or for an open size.
    """
    candidates = [result for result in _own_tensors(body.draft) if _alike(value, result)]
    if candidates and body.chance(0.7):
        return candidates[-1]
    outer = [result for result in body.draft.visible if _alike(value, result) and result is not value]
    if outer:
        return body.node("Identity", [body.choice(outer)])
    if value.dtype == "object" or None in value.dims:
        raise Rejected("no match")
    return body.node("Constant", [], value=body.data(value.shape, value.dtype))


def _state(body: Draw, value: Value) -> Value:
    """Add an input to a body for a value that a loop carries, and return the input.

    A float is not exact, because an iteration may round it.
    """
    name = body.draft.name("s")
    samples = [Sample(sample.array, sample.shaken) for sample in value.samples]
    state = Value(name, samples, value.exact and not value.is_float)
    body.draft.values.append(state)
    return state


@template("Loop", 1.2)
def loop(draw: Draw) -> None:
    """Add a Loop of at most three iterations with a carried value, and sometimes with a scan output."""
    carried = draw.pick(("float32", "int64"), range(4))
    body = _body(draw)
    worlds = draw.shared.worlds
    iteration = _input(body, [draw.data((), "int64", 0, 0)] * worlds)
    going = _input(body, [draw.data((), "bool") | True] * worlds)
    state = _state(body, carried)
    _grow(body, draw.integer(1, 3))
    following = _match_state(body, state)
    proceed = body.node("Identity", [going])
    if draw.chance(0.3):
        proceed = body.node("Less", [iteration, body.constant(draw.integer(0, 2))])
    results = [proceed, following]
    scanned = _own_tensors(body.draft)
    if draw.chance(0.5):
        results.append(body.choice([value for value in scanned if value is not proceed and value.dtype != "object"]))
    graph = _graph(body.draft, [iteration, going, state], results)
    count = draw.constant(draw.integer(1, 3))
    condition: Optional[Value] = draw.constant(True, "bool") if draw.chance(0.6) else None
    draw.nodes(
        "Loop",
        [count, condition, carried],
        len(results) - 1,
        _round_floats,
        captured=_captures(draw, graph),
        body=graph,
    )


def _round_floats(_operands: Sequence[Value]) -> bool:
    """Return whether the results of a loop are exact: always False, because their floats are rounded."""
    return False


def _input(body: Draw, arrays: Sequence[object]) -> Value:
    """Add an exact input to a body, with its array in each world, and return it."""
    value = Value(body.draft.name("s"), [Sample(array, array) for array in arrays], True)
    body.draft.values.append(value)
    return value


def _match_state(body: Draw, state: Value) -> Value:
    """Return the next state of a loop: a result of a node in the body that has the dtype and shape of `state`.

    Without such a result, an Add of `state` and 1 is added to the body.
    """
    candidates = [value for value in _own_tensors(body.draft) if _alike(state, value)]
    if candidates:
        return candidates[-1]
    return body.node("Add", [state, body.constant(1, state.dtype)], _round_floats)


@template("Scan", 0.7)
def scan(draw: Draw) -> None:
    """Add a Scan over axis 0, sometimes backwards, with a state and a scan output.

    Raises Rejected if the axis is empty in a world.
    """
    x = draw.pick(("float32", "int64"), range(2, 4))
    slices = [array[0] for array in x.arrays if len(array)]
    if len(slices) != draw.shared.worlds:
        raise Rejected("empty")
    body = _body(draw)
    initial = draw.fresh([array.shape for array in slices], x.dtype, -2, 2)
    state = _state(body, initial)
    item = Value(body.draft.name("s"), [Sample(array, array) for array in slices], x.exact and not x.is_float)
    body.draft.values.append(item)
    following = body.node("Add", [state, item], _round_floats)
    _grow(body, draw.integer(1, 2))
    output = body.choice([value for value in _own_tensors(body.draft) if value.dtype != "object"])
    if output is following:
        output = body.node("Identity", [following])
    graph = _graph(body.draft, [state, item], [following, output])
    directions = [1] if draw.chance(0.3) else None
    draw.nodes(
        "Scan",
        [initial, x],
        2,
        _round_floats,
        captured=_captures(draw, graph),
        body=graph,
        num_scan_inputs=1,
        scan_input_directions=directions,
    )
