"""Find the constants of a program and their total size, which a TensorFlow graph limits to `GRAPH_LIMIT`."""

from typing import Dict, Iterator, Sequence

import numpy as np

from onnx_compat.shim import Arg, Const, Program, Region

__all__ = ["GRAPH_LIMIT", "constant_bytes", "constants"]

#: The most bytes of constants in a graph. A graph is a protocol buffer of at most 2 GB, which also stores the nodes.
GRAPH_LIMIT = 1900 * 1000 * 1000


def constants(program: Program) -> Dict[int, np.ndarray]:
    """Return a dict id(array) -> array: the constants that live nodes and outputs of a program read.

    Constants that branches and loop bodies read are included.
    """
    return {id(array): array for array in _region_constants(program.region)}


def constant_bytes(program: Program) -> int:
    """Return the total size of a program's `constants` in bytes. An array that is used twice counts once.

    A string counts as a pointer of 8 bytes.
    """
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
