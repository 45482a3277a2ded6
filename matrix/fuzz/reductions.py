"""Reductions: simpler candidates of a case that fails. A candidate need not be valid; the oracle decides."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

import numpy as np

from matrix.fuzz.graphs import Case, Graph, Node, Port, Run, free_names

__all__ = ["REDUCTIONS", "Reduction", "Values", "prune"]

Values = List[Dict[str, Any]]
"""For each run, name -> value of all values of the graph."""
Reduction = Callable[[Case, Values], Iterator[Case]]


def prune(case: Case) -> Case:
    """Return the case without the nodes, inputs and initializers that no output needs."""
    needed: Set[str] = {port.name for port in case.graph.outputs}
    nodes: List[Node] = []
    for node in reversed(case.graph.nodes):
        if needed & set(node.outputs):
            nodes.insert(0, node)
            needed |= free_names([node])
    graph = case.graph._replace(
        nodes=tuple(nodes),
        inputs=tuple(port for port in case.graph.inputs if port.name in needed),
        initializers={name: array for name, array in case.graph.initializers.items() if name in needed},
    )
    names = {port.name for port in graph.inputs}
    runs = [
        run._replace(feeds={name: value for name, value in run.feeds.items() if name in names}) for run in case.runs
    ]
    return case._replace(graph=graph, runs=tuple(runs))


def keep_one_output(case: Case, _values: Values) -> Iterator[Case]:
    """Yield a case for each output, which is its only output. Yields nothing for a case with one output."""
    if len(case.graph.outputs) > 1:
        for port in case.graph.outputs:
            yield _with_graph(case, outputs=(port,))


def keep_one_run(case: Case, _values: Values) -> Iterator[Case]:
    """Yield a case for each run, which is its only run. Yields nothing for a case with one run."""
    if len(case.runs) > 1:
        for run in case.runs:
            yield case._replace(runs=(run,))


def cut_before(case: Case, values: Values) -> Iterator[Case]:
    """Yield cases without the nodes before a position. The results of these nodes become inputs. Late positions first.

    The positions are 1, 2, 4 and 8 nodes before the end, every second position of the first half, and position 1.
    """
    count = len(case.graph.nodes)
    positions = sorted({count - 1, count - 2, count - 4, count - 8, *range(count // 2, 0, -2), 1}, reverse=True)
    for position in positions:
        if 0 < position < count:
            yield _feed(case, values, case.graph.nodes[position:], case.graph.nodes[:position])


def cut_node(case: Case, values: Values) -> Iterator[Case]:
    """Yield cases without one node, whose results become inputs; late nodes first. The last node stays."""
    for index in range(len(case.graph.nodes) - 2, -1, -1):
        nodes = case.graph.nodes
        yield _feed(case, values, nodes[:index] + nodes[index + 1 :], [nodes[index]])


def end_earlier(case: Case, values: Values) -> Iterator[Case]:
    """Yield cases whose only output is a tensor that a node before the last node computes."""
    final = {port.name for port in case.graph.outputs}
    for node in case.graph.nodes[:-1]:
        for name in node.outputs:
            value = values[0].get(name)
            if isinstance(value, np.ndarray) and (name not in final or len(final) > 1):
                yield _with_graph(case, outputs=(Port(name, value.dtype.name, ("?",) * value.ndim),))


def bypass_node(case: Case, _values: Values) -> Iterator[Case]:
    """Yield cases without one node, of the graph or of a body: its readers read one of its operands instead."""
    for nodes in _bypass(case.graph.nodes):
        yield _with_graph(case, nodes=nodes)


def drop_attributes(case: Case, _values: Values) -> Iterator[Case]:
    """Yield cases in which one node lacks an attribute, its last operand or its last output.

    A body, the only operand and the only output stay.
    """
    for index, node in enumerate(case.graph.nodes):
        smaller = [
            node._replace(attributes={key: value for key, value in node.attributes.items() if key != name})
            for name, attribute in node.attributes.items()
            if not isinstance(attribute, Graph)
        ]
        if len(node.inputs) > 1:
            smaller.append(node._replace(inputs=node.inputs[:-1]))
        if len(node.outputs) > 1:
            smaller.append(node._replace(outputs=node.outputs[:-1]))
        for simpler in smaller:
            yield _with_graph(case, nodes=(*case.graph.nodes[:index], simpler, *case.graph.nodes[index + 1 :]))


def fix_sizes(case: Case, _values: Values) -> Iterator[Case]:
    """Yield cases that declare the sizes of the feeds: for all inputs at once, then for a single input.

    Yields nothing for a case with several runs.
    """
    if len(case.runs) > 1:
        return
    fixed = [_fix(port, case.runs[0].feeds[port.name]) for port in case.graph.inputs]
    if list(case.graph.inputs) != fixed:
        yield _with_graph(case, inputs=tuple(fixed))
        for index, port in enumerate(fixed):
            if port != case.graph.inputs[index]:
                yield _with_graph(case, inputs=(*case.graph.inputs[:index], port, *case.graph.inputs[index + 1 :]))


def freeze_inputs(case: Case, _values: Values) -> Iterator[Case]:
    """Yield cases in which one tensor input becomes an initializer with the value of its feed.

    Yields nothing for a case with several runs or with one input.
    """
    if len(case.runs) > 1:
        return
    run = case.runs[0]
    for port in case.graph.inputs:
        if isinstance(run.feeds[port.name], np.ndarray) and len(case.graph.inputs) > 1:
            initializers = {**case.graph.initializers, port.name: run.feeds[port.name]}
            kept = tuple(other_port for other_port in case.graph.inputs if other_port is not port)
            yield _with_graph(case, inputs=kept, initializers=initializers)


def shrink_axes(case: Case, _values: Values) -> Iterator[Case]:
    """Yield cases with shorter axes: all axes of one size, in all inputs and initializers; then single axes.

    Yields nothing for a case with several runs.
    """
    if len(case.runs) > 1:
        return
    feeds = case.runs[0].feeds
    arrays = {
        name: array for name, array in {**feeds, **case.graph.initializers}.items() if isinstance(array, np.ndarray)
    }
    sizes = sorted({size for array in arrays.values() for size in array.shape if size > 1}, reverse=True)
    for size in sizes:
        for smaller in sorted({1, 2, size // 2} & set(range(1, size))):
            yield _with_arrays(case, {name: _cut(array, size, smaller) for name, array in arrays.items()})
    for name, array in arrays.items():
        for axis, size in enumerate(array.shape):
            for smaller in sorted({1, size // 2, size - 1} & set(range(1, size))):
                yield _with_arrays(case, {name: array.take(range(smaller), axis)})


def simplify_data(case: Case, _values: Values) -> Iterator[Case]:
    """Yield cases in which one feed or initializer has simpler elements: zeros, ones, a range or whole numbers."""
    for index, run in enumerate(case.runs):
        arrays = {name: array for name, array in run.feeds.items() if isinstance(array, np.ndarray)}
        if index == 0:
            arrays.update(case.graph.initializers)
        for name, array in arrays.items():
            for simpler in _simpler(array):
                if not (simpler != array).any():  # the candidates after it are less simple
                    break
                yield _with_arrays(case, {name: simpler}, index)


REDUCTIONS: Sequence[Reduction] = (
    keep_one_output, keep_one_run, end_earlier, cut_before, cut_node, bypass_node, drop_attributes, freeze_inputs, fix_sizes,
    shrink_axes, simplify_data,
)  # fmt: skip


def _with_graph(case: Case, **changes: Any) -> Case:
    """Return the case with changed fields of its graph, without nodes and inputs that no output needs (see `prune`)."""
    return prune(case._replace(graph=case.graph._replace(**changes)))


def _with_arrays(case: Case, arrays: Dict[str, np.ndarray], index: int = 0) -> Case:
    """Return the case in which `arrays`, name -> array, replace feeds of the run `index` and initializers.

    Sizes that an input declares as numbers become those of its new feed.
    """
    run = case.runs[index]
    feeds = {name: arrays.get(name, value) for name, value in run.feeds.items()}
    initializers = {name: arrays.get(name, array) for name, array in case.graph.initializers.items()}
    inputs = tuple(
        port
        if port.shape is None or port.name not in arrays
        else port._replace(
            shape=tuple(
                size if isinstance(size, str) else actual for size, actual in zip(port.shape, arrays[port.name].shape)
            )
        )
        for port in case.graph.inputs
    )
    runs = (*case.runs[:index], run._replace(feeds=feeds), *case.runs[index + 1 :])
    return case._replace(graph=case.graph._replace(inputs=inputs, initializers=initializers), runs=runs)


def _feed(case: Case, values: Values, nodes: Sequence[Node], replaced: Sequence[Node]) -> Case:
    """Return the case with `nodes` alone. Results of `replaced` that `nodes` read, or that are outputs, become inputs.

    `values`: name -> value, for each run. Nodes and inputs that no output needs are removed (see `prune`).
    """
    produced = {name for node in replaced for name in node.outputs}
    read = (free_names(nodes) | {port.name for port in case.graph.outputs}) & produced
    inputs = list(case.graph.inputs)
    for name in sorted(read):
        shapes = [run_values[name].shape for run_values in values if isinstance(run_values[name], np.ndarray)]
        if len(shapes) == len(values):
            shape = tuple(size[0] if len(set(size)) == 1 else "?" for size in zip(*shapes))
            inputs.append(Port(name, values[0][name].dtype.name, shape))
        else:
            inputs.append(Port(name, values[0][name][0].dtype.name, None, "sequence"))
    runs: Tuple[Run, ...] = tuple(
        run._replace(feeds={**run.feeds, **{name: run_values[name] for name in sorted(read)}})
        for run, run_values in zip(case.runs, values)
    )
    return prune(case._replace(graph=case.graph._replace(nodes=tuple(nodes), inputs=tuple(inputs)), runs=runs))


def _bypass(nodes: Tuple[Node, ...]) -> Iterator[Tuple[Node, ...]]:
    """Yield the nodes without one node, for each node and each of its operands; then the same for the nodes of bodies.

    The readers of the removed node's first output read the operand instead. A node without a later reader stays.
    """
    for index, node in enumerate(nodes):
        rest = nodes[index + 1 :]
        for operand in dict.fromkeys(node.inputs):
            if operand and any(node.outputs[0] in free_names([reader]) for reader in rest):
                yield nodes[:index] + tuple(_rename(reader, node.outputs[0], operand) for reader in rest)
        for key, body in node.attributes.items():
            if isinstance(body, Graph):
                for inner in _bypass(body.nodes):
                    changed = node._replace(attributes={**node.attributes, key: body._replace(nodes=inner)})
                    yield (*nodes[:index], changed, *rest)


def _rename(node: Node, name: str, new_name: str) -> Node:
    """Return the node with `new_name` in place of `name` among its inputs and the inputs of the nodes in its bodies."""
    attributes = {
        key: body._replace(nodes=tuple(_rename(inner, name, new_name) for inner in body.nodes))
        if isinstance(body, Graph)
        else body
        for key, body in node.attributes.items()
    }
    inputs = tuple(new_name if operand == name else operand for operand in node.inputs)
    return node._replace(inputs=inputs, attributes=attributes)


def _fix(port: Port, value: Any) -> Port:
    """Return the port with the shape of a tensor; the port itself for a sequence."""
    return port._replace(shape=tuple(value.shape)) if isinstance(value, np.ndarray) else port


def _cut(array: np.ndarray, size: int, smaller: int) -> np.ndarray:
    """Return the first `smaller` elements along every axis of `size` elements."""
    return array[tuple(slice(smaller) if extent == size else slice(None) for extent in array.shape)]


def _simpler(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield simpler arrays of the same shape and dtype, the simplest first.

    Yields nothing for bools, and for numbers without elements.
    """
    if array.dtype.kind in "fiu" and array.size:
        yield np.zeros_like(array)
        yield np.ones_like(array)
        yield np.arange(array.size).reshape(array.shape).astype(array.dtype)
        if array.dtype.kind == "f":
            yield np.rint(array)
    elif array.dtype == object:
        yield np.full_like(array, "a")
