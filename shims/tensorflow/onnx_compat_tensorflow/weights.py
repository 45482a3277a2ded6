"""Find the constants of a program, their total size, and the weights among them that can be trained.

A TensorFlow graph limits the total size of its constants to `GRAPH_LIMIT`.
"""

from typing import Dict, FrozenSet, Iterator, Sequence, Set

import numpy as np

from onnx_compat.shim import Arg, Const, Node, Program, Region
from onnx_compat_tensorflow.names import operation_names

__all__ = ["GRAPH_LIMIT", "constant_bytes", "constants", "filters_to_swap", "trainable_weights"]

#: The most bytes of constants in a graph. A graph is a protocol buffer of at most 2 GB, which also stores the nodes.
GRAPH_LIMIT = 1900 * 1000 * 1000


def constants(program: Program) -> Dict[int, np.ndarray]:
    """Return a dict id(array) -> array: the constants that live nodes and outputs of a program read.

    Constants that branches and loop bodies read are included.
    """
    return {id(const.array): const.array for const in _region_constants(program.region)}


def constant_bytes(program: Program) -> int:
    """Return the total size of a program's `constants` in bytes. An array that is used twice counts once.

    A string counts as a pointer of 8 bytes.
    """
    return sum(array.nbytes for array in constants(program).values())


def trainable_weights(program: Program) -> Dict[str, np.ndarray]:
    """Return a dict {name of a variable: array}: the constants of a program that training may change.

    A constant is returned if all of these conditions hold:

    - It was computed from a float weight of the model (see `Const.weight`).
    - It is not empty, and has no carried dtype.
    - It is no mask: it has no NaN, no infinity, and neither the largest nor the least number of its dtype.

    A variable has the name of the weight, with the characters that TensorFlow accepts. If several arrays come from a
    weight "w", the names are "w", "w_1", ...
    """
    names: Dict[str, np.ndarray] = {}
    weights = {id(const.array): const for const in _region_constants(program.region) if _is_trainable(const)}
    for const in weights.values():
        name, count = str(const.weight), 0
        while name in names:
            count += 1
            name = "%s_%d" % (const.weight, count)
        names[name] = const.array
    accepted = operation_names(names)
    return {accepted[name]: array for name, array in names.items()}


def filters_to_swap(program: Program) -> FrozenSet[int]:
    """Return the ids of the filter arrays that a variable should store with input and output channels swapped.

    These are the filters of transposed convolutions with two or three spatial axes and one group. An array that has
    another use in the program is left out.

    The kernel reads the order [..., output channels, input channels]. A variable in another order would be permuted at
    each run.
    """
    filters: Set[int] = set()
    other_arrays: Set[int] = set()
    for node in _nodes(program.region):
        is_plain = node.primitive == "conv_transpose" and node.params.get("groups", 1) == 1
        swaps = is_plain and len(node.params["window"].strides) in (2, 3)
        for position, arg in enumerate(node.args):
            is_filter = swaps and position == 1
            (filters if is_filter else other_arrays).update(id(const.array) for const in _argument_constants([arg]))
    other_arrays.update(id(const.array) for const in _argument_constants(program.region.outputs))
    return frozenset(filters - other_arrays)


def _is_trainable(const: Const) -> bool:
    array = const.array
    if const.weight is None or not const.spec.dtype.native or array.size == 0:
        return False
    limit = np.finfo(array.dtype).max
    return bool(-limit < array.min() and array.max() < limit)  # a comparison with NaN is false


def _nodes(region: Region) -> Iterator[Node]:
    """Yield the live nodes of a region and of its inner regions."""
    for node in region.live():
        yield node
        for inner in node.regions:
            yield from _nodes(inner)


def _region_constants(region: Region) -> Iterator[Const]:
    for node in region.live():
        yield from _argument_constants(node.args)
        for inner in node.regions:
            yield from _region_constants(inner)
    yield from _argument_constants(region.outputs)


def _argument_constants(args: Sequence[Arg]) -> Iterator[Const]:
    for arg in args:
        if isinstance(arg, Const):
            yield arg
        elif isinstance(arg, tuple):
            yield from _argument_constants(arg)
