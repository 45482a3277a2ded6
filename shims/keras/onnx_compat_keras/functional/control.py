"""Emitter methods for branches and loops: `keras.ops.switch` over functional models, which the file stores in its config.

    cond(p, then, else)       =>  switch(p, [else, then], [captures...])
    while_loop(test, body)    =>  switch(0, [keras.ops.while_loop], test, body, {state and captures})
    scan(body)                =>  a while_loop over the number of the slice

Keras cannot load a saved `while_loop`, whose functions are arguments of its class. `switch` takes functions as arguments of
its call, which a file keeps: models, and functions of Keras by name.
"""

from typing import Any, Callable, Dict, List, Sequence, Tuple

import keras
import numpy as np

from onnx_compat.shim import DType, Sizes, Spec, UnsupportedError, dtypes
from onnx_compat_keras.features import loads_while_loops
from onnx_compat_keras.framework_types import Bodies, Handle, KerasModel, SymbolicTensor
from onnx_compat_keras.functional.base import Known, Scope, policy, storage
from onnx_compat_keras.functional.saved_function import SavedFunction
from onnx_compat_keras.functional.shape import Shape
from onnx_compat_keras.functional.sizes import Length

__all__ = ["Control", "InnerModel", "without_constants"]

#: The most nodes of a loop that is unrolled.
_MOST_UNROLLED = 2048
#: The body of a model: its input handles -> its results.
_Body = Callable[[Sequence[Handle]], Sequence[Handle]]


class Control(Shape):
    """Emitter methods for the primitives of `onnx_compat.primitives.control`."""

    def cond(self, pred: Handle, *, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
        specs = [output.spec for output in self.node.outputs]
        operands = [self.operand_of_body(handle) for handle in captures]
        inner = [InnerModel(self, operands, _unpacking(body), specs) for body in reversed(bodies)]
        lifted = self.join([model.scope for model in inner])
        models = [model.build_list(lifted) for model in inner]
        index = self.unchecked_ops.cast(self.unchecked_ops.reshape(self.tensor(pred), ()), "int32")
        values = [self.zero(), *without_constants(operands), *(self.constant_tensor(known) for known in lifted)]
        results = self.unchecked_ops.switch(index, models, values)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        return tuple(self.open_sizes(result, spec) for result, spec in zip(results, specs))

    def while_loop(self, *state: Handle, bodies: Bodies, captures: Sequence[Handle]) -> Tuple[Handle, ...]:
        test, body = bodies
        specs = [ref.spec for ref in self.node.regions[1].inputs]
        return tuple(self._loop(_unpacking(test), _unpacking(body), list(state), specs, list(captures)))

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
        """Run the body in a while_loop. Return the final states, then the stacked ys.

        The loop's state is the number of the slice, the states, and the elements of all ys so far. If the back end
        loads no saved while_loop, a known number of slices is unrolled (see `_unroll`). `reverse`: begin with the last
        slice; the stacked ys still have the order of the slices.

        Raises UnsupportedError if a stacked result has more than one size that is known only at run time, or one and
        also a size 0. The number of slices is one of the sizes. If the back end loads no saved while_loop, raises
        UnsupportedError for an unknown number of slices, and for a scan that cannot be unrolled.
        """
        (count,) = length.scalars
        if not loads_while_loops() and isinstance(count, (int, np.integer)):
            return self._unroll(list(state), list(map(self.tensor, xs)), int(count), reverse, bodies[0], captures)
        specs = [ref.spec for ref in self.node.regions[0].inputs[: len(state)]]
        stacked = [output.spec for output in self.node.outputs[len(state) :]]
        number = Spec(dtypes.int64, ())
        whole = [number, *specs, *(Spec(spec.dtype, (_Open(),)) for spec in stacked)]
        empty = [self.constant(np.zeros(0, spec.dtype.numpy), spec.dtype) for spec in stacked]
        outer = [count if isinstance(count, Length) else _int64(count), *map(self.tensor, xs), *captures]

        def test(args: Sequence[Handle]) -> List[Handle]:
            return [self.unchecked_ops.less(args[0], self.size_tensor(args[len(whole)]))]

        def step(args: Sequence[Handle]) -> List[Handle]:
            ops, k = self.unchecked_ops, args[0]
            total, slices = args[len(whole)], args[len(whole) + 1 : len(whole) + 1 + len(xs)]
            at = ops.subtract(ops.subtract(self.size_tensor(total), 1), k) if reverse else k
            parts = [ops.take(x, ops.cast(at, "int32"), axis=0) for x in slices]
            results = bodies[0](*args[1 : 1 + len(state)], *parts, *args[len(whole) + 1 + len(xs) :])
            joined = []
            for y, so_far in zip(results[len(state) :], args[1 + len(state) : len(whole)]):
                pair = [so_far, ops.reshape(self.tensor(y), (-1,))]
                joined.append(ops.concatenate(pair[::-1] if reverse else pair, axis=0))
            return [ops.add(k, 1), *results[: len(state)], *joined]

        results = self._loop(test, step, [_int64(0), *state, *empty], whole, outer)[1:]
        ys = [self._unflatten(flat, spec, count) for flat, spec in zip(results[len(state) :], stacked)]
        return (*results[: len(state)], *ys)

    def _unroll(
        self,
        state: List[Handle],
        xs: Sequence[Handle],
        count: int,
        reverse: bool,
        body: Callable[..., Sequence[Handle]],
        captures: Sequence[Handle],
    ) -> Tuple[Handle, ...]:
        """Apply the body of a scan `count` times, in the model itself (loop unrolling). Return the results of the scan.

        `reverse`: begin with the last slice; the stacked ys still have the order of the slices. Raises UnsupportedError
        if the rounds have more than `_MOST_UNROLLED` nodes in total, or if there is no round.
        """
        ops, nodes = self.unchecked_ops, sum(1 for _ in self.node.regions[0].live())
        if not 0 < count * nodes <= _MOST_UNROLLED:
            raise UnsupportedError(
                "Keras on %s loads no saved while_loop, and a scan of %d rounds of %d nodes is not unrolled"
                % (self.back_end, count, nodes),
                hint="use Keras on TensorFlow or PyTorch, or allow a fallback: --allow-fallback",
            )
        rounds: List[Sequence[Handle]] = []
        for k in reversed(range(count)) if reverse else range(count):
            results = list(body(*state, *[ops.take(x, k, axis=0) for x in xs], *captures))
            state, stacked = results[: len(state)], [ops.expand_dims(self.tensor(y), 0) for y in results[len(state) :]]
            rounds.append(stacked)
        stacks = [ops.concatenate(list(ys), axis=0) for ys in zip(*(rounds[::-1] if reverse else rounds))]
        return (*state, *stacks)

    def _unflatten(self, flat: Handle, spec: Spec, count: Handle) -> Handle:
        """Reshape `flat`, the vector of all elements of a stacked y, to [count, *spec.shape[1:]].

        Raises UnsupportedError if two of these sizes are not static, or if one is not static and another is 0.
        """
        sizes = [count if isinstance(count, int) else -1]
        sizes += [int(size) if isinstance(size, (int, np.integer)) else -1 for size in spec.shape[1:]]
        if sizes.count(-1) > 1 or (-1 in sizes and 0 in sizes):
            raise UnsupportedError("a Keras model does not stack slices of several unknown sizes")
        return self.unchecked_ops.reshape(flat, tuple(sizes))

    def _loop(
        self, test: _Body, body: _Body, state: Sequence[Handle], specs: Sequence[Spec], captures: Sequence[Handle]
    ) -> List[Handle]:
        """Return the state after `state = body(state + captures)`, repeated while `test(state + captures)` is true.

        `specs`: the types of the state, which hold before and after each round. Captures do not change.

        Raises UnsupportedError if this Keras cannot load a saved while_loop (see `loads_while_loops`).
        """
        if not loads_while_loops():
            raise UnsupportedError(
                "this Keras on %s cannot load a saved while_loop" % self.back_end,
                hint="use Keras on TensorFlow or PyTorch, or allow a fallback: --allow-fallback",
            )
        first = [self.open_sizes(self.dense(self.tensor(handle)), spec) for handle, spec in zip(state, specs)]
        operands = first + [self.operand_of_body(handle) for handle in captures]
        inner = [
            InnerModel(self, operands, test, [Spec(dtypes.bool_, ())], specs),
            InnerModel(self, operands, body, specs, specs),
        ]
        lifted = self.join([model.scope for model in inner])
        test_model = inner[0].build_test(lifted)
        body_model = inner[1].build_body(lifted, len(state))
        values = [self.zero(), *without_constants(operands), *(self.constant_tensor(known) for known in lifted)]
        keys = [tensor.name for tensor in body_model.inputs]
        arguments: List[Any] = [SavedFunction.of("while_loop"), test_model, body_model, dict(zip(keys, values))]
        if self.back_end == "torch":  # infers shapes by a run on ones: a limit that is computed stops it after a round
            arguments.append(self.unchecked_ops.add(self.unchecked_ops.reshape(self.zero(), ()), 2**31 - 1))
        results = self.unchecked_ops.switch(0, arguments[:1], *arguments[1:])
        after = [results[key] for key in keys[1 : 1 + len(state)]]
        return [self.open_sizes(result, spec) for result, spec in zip(after, specs)]

    def join(self, scopes: Sequence[Scope]) -> List[Known]:
        """Return the constants that bodies with these scopes take as inputs (see `Scope`), without duplicates.

        They are sorted by the names of the inputs. The scopes stay unchanged.
        """
        constants: Dict[int, Known] = {}
        for scope in scopes:
            constants.update({key: known for key, (known, _) in (scope.lifted or {}).items()})
        return [constants[key] for key in sorted(constants, key=self._lifted_names.__getitem__)]

    def operand_of_body(self, handle: Handle) -> Handle:
        """Return a handle as the body of a branch or loop gets it: a `Known` unchanged, anything else as a tensor."""
        return handle if isinstance(handle, Known) else self.dense(self.tensor(handle))

    def dense(self, x: SymbolicTensor) -> SymbolicTensor:
        """Return x declared as dense. Keras 3.15 declares some results, such as those of `divide`, as sparse."""
        return self.unchecked_ops.convert_to_tensor(x, sparse=False) if getattr(x, "sparse", False) else x

    def open_sizes(self, x: SymbolicTensor, spec: Spec) -> SymbolicTensor:
        """Return x with an unknown length on each axis whose size is symbolic in `spec`. The values stay as they are.

        TensorFlow checks that no known length changes in a loop or differs between branches.

        Raises UnsupportedError on JAX, which compiles fixed shapes, if x has a known length on such an axis.
        """
        for axis, size in enumerate(spec.shape):
            if x.shape[axis] is not None and not isinstance(size, (int, np.integer)):
                if self.back_end == "jax":
                    raise UnsupportedError("Keras on JAX has no branches or loops that change a shape")
                x = self.unchecked_ops.take(x, self.nonzero_positions(self._axis(x, axis)), axis=axis)
        return x

    def nonzero_positions(self, vector: SymbolicTensor) -> SymbolicTensor:
        """Return the int32 positions of the elements of a vector that are not zero."""
        result = self.unchecked_ops.nonzero(vector)
        # Keras on torch, and older releases, give a matrix with a single row, or a vector.
        return self.unchecked_ops.reshape(result[0] if isinstance(result, (list, tuple)) else result, (-1,))


class _Open:
    """A size in place of a symbolic size: the axis has a length that is known only at run time."""


class InnerModel:
    """The body of a branch or loop, as a Keras model with inputs of its own. The `build_*` methods return the model.

    emitter: builds the body, in a new scope.
    operands: the handles that the body reads. The body gets an input in place of each, and a `Known` unchanged.
    body: a function of the list of inputs that returns the results.
    results: the types of the results.
    state: the types of the first operands, if these are the state of a loop. Their symbolic sizes become unknown.
    """

    def __init__(
        self,
        emitter: Control,
        operands: Sequence[Handle],
        body: _Body,
        results: Sequence[Spec],
        state: Sequence[Spec] = (),
    ) -> None:
        self.emitter = emitter
        # The names of the inputs are the keys of the dict, which sort in the order of the inputs.
        self.zero = keras.Input(batch_shape=(1,), dtype="int32", name="a")
        self.inputs: List[Handle] = []
        for position, handle in enumerate(operands):
            if isinstance(handle, Known):
                self.inputs.append(handle)
                continue
            shape = tuple(handle.shape)
            if position < len(state):
                shape = tuple(size if isinstance(size, (int, np.integer)) else None for size in state[position].shape)
            self.inputs.append(keras.Input(batch_shape=shape, dtype=handle.dtype, name="b%05d" % position))
        with emitter.inner_scope(self.zero) as self.scope:
            self.results = [self._finish(emitter, handle, spec) for handle, spec in zip(body(self.inputs), results)]

    def _finish(self, emitter: Control, handle: Handle, spec: Spec) -> SymbolicTensor:
        """Return a result as a tensor of the dtype of `spec`: the output of a new Identity layer.

        A known size of `spec` is declared too, if a reshape can declare it. A symbolic size becomes an unknown length.
        """
        ops, tensor = emitter.unchecked_ops, emitter.tensor(handle)
        # On JAX, a sum of int32 that Keras declares as int32 is int64.
        if tensor.dtype != storage(spec.dtype) or emitter.back_end == "jax":
            tensor = ops.cast(tensor, storage(spec.dtype))
        sizes = [int(size) if isinstance(size, (int, np.integer)) else -1 for size in spec.shape]
        if any(a is None and b != -1 for a, b in zip(tensor.shape, sizes)) and sizes.count(-1) <= (0 not in sizes):
            tensor = ops.reshape(tensor, tuple(sizes))
        return self._identity(emitter.open_sizes(tensor, spec), spec.dtype)

    def _identity(self, tensor: SymbolicTensor, dtype: DType) -> SymbolicTensor:
        layer = keras.layers.Identity(name=self.emitter.names.fresh("result"), dtype=policy(dtype))
        self.emitter.names.operations[id(layer)] = layer
        return layer(tensor)

    def _all_inputs(self, lifted: Sequence[Known]) -> List[SymbolicTensor]:
        """Return all inputs: [0], then the tensors of the operands, then a tensor for each constant of `lifted`."""
        known = self.scope.lifted or {}
        tensors = [
            known[id(constant.array)][1] if id(constant.array) in known else self.emitter.lifted_input(constant)
            for constant in lifted
        ]
        return [self.zero, *without_constants(self.inputs), *tensors]

    def build_list(self, lifted: Sequence[Known]) -> KerasModel:
        """Return the model of a branch: it maps a list of tensors to a list of results, or to a single result.

        The list has [0], the operands that are no constants, and a tensor for each constant in `lifted`.
        """
        results = self.results if len(self.results) != 1 else self.results[0]
        return keras.Model(self._all_inputs(lifted), results, name=self.emitter.names.fresh("branch"))

    def build_test(self, lifted: Sequence[Known]) -> KerasModel:
        """Return the model of the condition of a loop: it maps a dict of tensors to a bool scalar.

        The dict has the keys of `build_body`. `lifted`: constants that are passed as inputs.
        """
        return keras.Model(_by_name(self._all_inputs(lifted)), self.results[0], name=self.emitter.names.fresh("test"))

    def build_body(self, lifted: Sequence[Known], count: int) -> KerasModel:
        """Return the model of the body of a loop. It maps a dict of tensors to a dict with the same keys.

        The keys are the names of the inputs, in this order:

        - `self.zero`: an int32 vector with the single element 0
        - the state: `count` tensors
        - the captures
        - a tensor for each constant in `lifted`

        The result has the new state. All other entries are returned unchanged.
        """
        inputs = self._all_inputs(lifted)
        outputs = {tensor.name: result for tensor, result in zip(inputs, self._next_state(inputs, count))}
        return keras.Model(_by_name(inputs), outputs, name=self.emitter.names.fresh("body"))

    def build_rounds(self, lifted: Sequence[Known], count: int) -> KerasModel:
        """Return the model of the body of `keras.ops.scan`. It maps a list of tensors to [list, result of the round].

        The lists have the order of `build_body`. The result of the round is the last of `self.results`.
        """
        inputs = self._all_inputs(lifted)
        outputs = [self._next_state(inputs, count), self.results[-1]]
        return keras.Model(inputs, outputs, name=self.emitter.names.fresh("body"))

    def _next_state(self, inputs: Sequence[SymbolicTensor], count: int) -> List[SymbolicTensor]:
        """Return the inputs of the body of a loop for the next round, as outputs of this round.

        The first `count` results of the body replace the state, `count` tensors. All other inputs stay as they are.
        """
        kept = [self._identity(tensor, DType.of(tensor.dtype)) for tensor in inputs[1 + count :]]
        return [self._identity(inputs[0], dtypes.int32), *self.results[:count], *kept]


def _unpacking(body: Callable[..., Sequence[Handle]]) -> _Body:
    """Return a function of a sequence that calls `body` with the elements as arguments."""
    return lambda args: body(*args)


def _by_name(inputs: Sequence[SymbolicTensor]) -> Dict[str, SymbolicTensor]:
    """Return a dict {name of an input: input}. The names sort in the order of the inputs."""
    return {tensor.name: tensor for tensor in inputs}


def without_constants(handles: Sequence[Handle]) -> List[SymbolicTensor]:
    """Return the handles that are no constants (`Known`). The body of a branch or loop has an input for each handle."""
    return [handle for handle in handles if not isinstance(handle, Known)]


def _int64(number: int) -> Known:
    return Known(np.asarray(number, np.int64), dtypes.int64)
