"""The constants of a program, and how much of them a graph can hold."""

from typing import Any, Dict, Iterator

import numpy as np

from onnx_compat.shim import Const, Program

__all__ = ["GRAPH_LIMIT", "constants", "size"]

#: A graph is one protocol buffer, which has to stay below 2 GB; what is not a weight needs some room too.
GRAPH_LIMIT = 1900 * 1000 * 1000


def constants(program: Program) -> Dict[int, np.ndarray]:
    """Every constant array, once, by its identity."""
    return {id(array): array for array in _in_region(program.region)}


def size(program: Program) -> int:
    """The bytes of all constants."""
    return sum(array.nbytes for array in constants(program).values())


def _in_region(region: Any) -> Iterator[np.ndarray]:
    for node in region.live():
        yield from _in_args(node.args)
        for inner in node.regions:
            yield from _in_region(inner)
    yield from _in_args(region.outputs)


def _in_args(args: Any) -> Iterator[np.ndarray]:
    for arg in args:
        if isinstance(arg, Const):
            yield arg.array
        elif isinstance(arg, tuple):
            yield from _in_args(arg)
