"""The constants of a program, their size in bytes, and the largest size that a graph holds."""

from typing import Dict, Iterator, Sequence

import numpy as np

from onnx_compat.shim import Arg, Const, Program, Region

__all__ = ["GRAPH_LIMIT", "constant_bytes", "constants"]

#: A graph is one protocol buffer, whose limit is 2 GB; the rest of it is for the nodes.
GRAPH_LIMIT = 1900 * 1000 * 1000


def constants(program: Program) -> Dict[int, np.ndarray]:
    """Return every constant array by its identity."""
    return {id(array): array for array in _region_constants(program.region)}


def constant_bytes(program: Program) -> int:
    """Return the size of all constants in bytes."""
    return sum(array.nbytes for array in constants(program).values())


def _region_constants(region: Region) -> Iterator[np.ndarray]:
    for node in region.live():
        yield from _argument_constants(node.args)
        for inner in node.regions:
            yield from _region_constants(inner)
    yield from _argument_constants(region.outputs)


def _argument_constants(args: Sequence[Arg]) -> Iterator[np.ndarray]:
    for arg in args:
        if isinstance(arg, Const):
            yield arg.array
        elif isinstance(arg, tuple):
            yield from _argument_constants(arg)
