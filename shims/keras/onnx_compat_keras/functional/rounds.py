"""Emitter methods for loops of a known number of rounds on JAX: `keras.ops.scan` over a functional model.

    scan(body)                    =>  scan(body, {number of the round, state, captures}, length=rounds)
    while k < rounds and ok: ...  =>  a scan of all rounds; a round after the end keeps the state

On JAX, a file holds no other loop: Keras infers the shapes of `switch` by `jax.eval_shape`, which accepts no model as an operand.
"""

from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Const, Node, Ref, Sizes, Spec, UnsupportedError, dtypes
from onnx_compat_keras.features import loads_scans
from onnx_compat_keras.framework_types import Bodies, Handle
from onnx_compat_keras.functional.base import Known
from onnx_compat_keras.functional.control import Control, InnerModel, without_constants

__all__ = ["Rounds"]

#: The most rounds of a while loop that are all computed.
_MOST_ROUNDS = 1024
_INT64 = Spec(dtypes.int64, ())


class Rounds(Control):
    """Emitter methods for `scan` and `while_loop` that use `keras.ops.scan` on JAX."""

    def scan(
        self,
        state: Sequence[Handle],
        xs: Sequence[Handle],
        length: Sizes,
        *,
        reverse: bool,
        bodies: Bodies,
        captures: Sequence[Handle],
    ) -> Tuple[Handle, ...]:
        (count,) = length.scalars
        if not loads_scans() or not isinstance(count, (int, np.integer)) or not count:
            return super().scan(state, xs, length, reverse=reverse, bodies=bodies, captures=captures)
        specs = [ref.spec for ref in self.node.regions[0].inputs[: len(state)]]
        stacked = [output.spec for output in self.node.outputs[len(state) :]]
        slices = list(map(self.tensor, xs))

        def step(k: Handle, args: Sequence[Handle]) -> List[Handle]:
            ops = self.unchecked_ops
            at = ops.cast(ops.subtract(int(count) - 1, k) if reverse else k, "int32")
            parts = [ops.take(x, at, axis=0) for x in args[len(state) : len(state) + len(xs)]]
            return list(bodies[0](*args[: len(state)], *parts, *args[len(state) + len(xs) :]))

        return tuple(self._scan_rounds(step, int(count), reverse, list(state), specs, stacked, [*slices, *captures]))

    def while_loop(self, *state: Handle, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
        """Compute a while loop. On JAX, it becomes a scan over the largest possible number of rounds.

        Raises UnsupportedError in these cases:

        - This Keras cannot load a saved loop.
        - On JAX, the condition does not limit the number of rounds (see `_most_rounds`), or the limit is over 1024.
        - On JAX, a state changes its shape.
        """
        if not loads_scans():
            return super().while_loop(*state, bodies=bodies, captures=captures)
        count = _most_rounds(self.node)
        if count is None or count > _MOST_ROUNDS:
            raise UnsupportedError(
                "a Keras model on JAX holds a loop with at most %d rounds, a limit that the model must give"
                % _MOST_ROUNDS,
                hint="use Keras on TensorFlow or PyTorch, or allow a fallback: --allow-fallback",
            )
        test, body = bodies
        specs = [ref.spec for ref in self.node.regions[1].inputs]

        def step(_: Handle, args: Sequence[Handle]) -> List[Handle]:
            (is_open,) = test(*args)
            before, after = args[: len(state)], body(*args)
            where, is_open = self.unchecked_ops.where, self.tensor(is_open)
            return [where(is_open, self.tensor(new), self.tensor(old)) for new, old in zip(after, before)]

        return tuple(self._scan_rounds(step, count, False, list(state), specs, [], captures))

    def _scan_rounds(
        self,
        step: Callable[[Handle, Sequence[Handle]], List[Handle]],
        count: int,
        reverse: bool,
        state: Sequence[Handle],
        specs: Sequence[Spec],
        stacked: Sequence[Spec],
        captures: Sequence[Handle],
    ) -> List[Handle]:
        """Return the state after `count` rounds of `state + ys = step(k, state + captures)`, then the stacked ys.

        `k`: the number of the round, from 0, as a tensor. `specs`: the types of the state. `stacked`: the types of the
        stacked ys. With `reverse`, the ys are stacked from the last round to the first.

        `keras.ops.scan` stacks the first y. The other ys are written into buffers, which are additional states.

        Raises UnsupportedError if a y other than the first has a symbolic size, or if a state changes its shape.
        """
        ops = self.unchecked_ops
        rows = list(stacked[1:])
        buffers = [self.constant(np.zeros([count, *_row_shape(spec)], spec.dtype.numpy), spec.dtype) for spec in rows]
        carried = [_INT64, *specs, *(Spec(spec.dtype, buffer.shape) for spec, buffer in zip(rows, buffers))]
        first = [self.tensor(Known(np.zeros((), np.int64), dtypes.int64))]
        first += [self.open_sizes(self.dense(self.tensor(handle)), spec) for handle, spec in zip(state, specs)]
        first += map(self.tensor, buffers)
        operands = first + [self.operand_of_body(handle) for handle in captures]

        def round_body(args: Sequence[Handle]) -> List[Handle]:
            k, before = args[0], args[1 : 1 + len(state)]
            results = step(k, [*before, *args[len(first) :]])
            after, ys = results[: len(state)], [self.tensor(y) for y in results[len(state) :]]
            at = ops.reshape(ops.cast(ops.subtract(count - 1, k) if reverse else k, "int32"), (1, 1))
            filled = [
                ops.scatter_update(buffer, at, ops.expand_dims(y, 0))
                for buffer, y in zip(args[1 + len(state) : len(first)], ys[1:])
            ]
            return [ops.add(k, 1), *after, *filled, ys[0] if ys else k]

        row = Spec(stacked[0].dtype, stacked[0].shape[1:]) if stacked else _INT64
        inner = InnerModel(self, operands, round_body, [*carried, row], carried)
        lifted = self.join([inner.scope])
        values = [self.zero(), *without_constants(operands), *(self.constant_tensor(known) for known in lifted)]
        values = [ops.cast(value, value.dtype) for value in values]  # the sum of `zero` is int64, declared as int32
        after, y = ops.scan(inner.build_rounds(lifted, len(first)), values, None, count, reverse)
        results = [self.open_sizes(result, spec) for result, spec in zip(after[2 : 2 + len(state)], specs)]
        return results + ([y, *after[2 + len(state) : 1 + len(first)]] if stacked else [])


def _row_shape(spec: Spec) -> List[int]:
    """Return the static shape of a row of a stacked result. Raises UnsupportedError if it has a symbolic size."""
    if not all(isinstance(size, (int, np.integer)) for size in spec.shape[1:]):
        raise UnsupportedError("a Keras model on JAX stacks several results of a loop in known sizes only")
    return [int(size) for size in spec.shape[1:]]


def _most_rounds(node: Node) -> Optional[int]:
    """Return the largest number of rounds that the condition of a recorded while loop allows.

    The condition must be `less(k, limit)`, or a conjunction of this and another test. `limit` must be a constant. `k`
    must be a state that begins as a constant and grows by 1. Returns None for any other condition.
    """
    test, body = node.regions
    (condition,) = test.outputs
    tests = [condition]
    if isinstance(condition, Ref) and condition.node is not None and condition.node.primitive == "logical_and":
        tests = list(condition.node.args)
    for part in tests:
        if not isinstance(part, Ref) or part.node is None or part.node.primitive != "less":
            continue
        k, limit = part.node.args
        if k not in test.inputs or not isinstance(limit, Const):
            continue
        index = list(test.inputs).index(k)
        start = node.args[index] if index < len(body.outputs) else None
        if isinstance(start, Const) and _grows_by_one(body.outputs[index], body.inputs[index]):
            return max(int(limit.array.reshape(())) - int(start.array.reshape(())), 0)
    return None


def _grows_by_one(after: object, before: object) -> bool:
    """Whether `after` is recorded as the sum of the value `before` and 1."""
    if not isinstance(after, Ref) or after.node is None or after.node.primitive != "add":
        return False
    x, y = after.node.args
    return x is before and isinstance(y, Const) and y.array.size == 1 and y.array.item() == 1
