"""Emitter methods for branches, loops and gradients, by TensorFlow's control flow.

A body is the region of a branch or a loop as a function of tensors. Values of outer regions are its arguments `captures`.
"""

import functools
from typing import Any, Callable, List, Optional, Sequence, Tuple, TypeVar, cast

from onnx_compat.shim import Ref, Region, Sizes, Spec
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.devices import placement
from onnx_compat_tensorflow.framework_types import Bodies, TfShape, TfTensor, TfTensorArray
from onnx_compat_tensorflow.tensors import static_shape, tf_dtype

__all__ = ["Control", "has_wrong_gradient"]

Handles = Sequence[TfTensor]
F = TypeVar("F", bound=Callable[..., Any])


def has_wrong_gradient(region: Region) -> bool:
    """Return whether TensorFlow gives a wrong gradient of a node in the region or its inner regions.

    The gradient of PadV2 by the pad value is None in every version, which counts as 0.
    """
    return any(
        (node.primitive == "pad" and isinstance(node.args[3], Ref)) or any(map(has_wrong_gradient, node.regions))
        for node in region.live()
    )


class Control(Base):
    """Emitter methods for `gradient` and the primitives of `onnx_compat.primitives.control`: cond, while_loop, scan."""

    #: The device of the program; None leaves the choice to TensorFlow.
    device: Optional[str] = None

    def _on_device(self, body: F) -> F:
        """Return a wrapper of the function of a branch or a loop, which places its operations on `self.device`.

        The wrapper is needed because an enclosing tf.device has no effect on nested functions in TensorFlow 2.0. If
        `self.device` is None, TensorFlow chooses the device.
        """

        @functools.wraps(body)
        def run_placed(*args: TfTensor) -> Any:
            with placement(self.tf, self.device):
                return body(*args)

        return cast(F, run_placed)

    def cond(self, pred: TfTensor, *, bodies: Bodies, captures: Handles) -> Tuple[TfTensor, ...]:
        shapes = [static_shape(output.spec.shape) for output in self.node.outputs]

        def branch(body: Callable[..., Sequence[TfTensor]]) -> Callable[[], List[TfTensor]]:
            # tf.cond needs outputs that belong to the branch: a value that passes through unchanged gets an Identity.
            return lambda: [
                self._set_shape(self.raw.Identity(input=result), shape)
                for result, shape in zip(body(*captures), shapes)
            ]

        flag = self.raw.Reshape(tensor=pred, shape=self.vector([], self.tf.int32))
        branches = [self._on_device(branch(body)) for body in bodies]
        return tuple(self.tf.compat.v1.cond(flag, branches[0], branches[1], strict=True))

    def while_loop(self, *state: TfTensor, bodies: Bodies, captures: Handles) -> Tuple[TfTensor, ...]:
        tf = self.tf
        shapes = [static_shape(output.spec.shape) for output in self.node.outputs]
        test, body = bodies
        empty = self.vector([], tf.int32)
        return tuple(
            tf.compat.v1.while_loop(
                self._on_device(lambda *values: self.raw.Reshape(tensor=test(*values, *captures)[0], shape=empty)),
                self._on_device(
                    lambda *values: [self._set_shape(*pair) for pair in zip(body(*values, *captures), shapes)]
                ),
                list(state),
                shape_invariants=[tf.TensorShape(shape) for shape in shapes],
                return_same_structure=True,
            )
        )

    def scan(
        self, state: Handles, xs: Handles, length: Sizes, *, reverse: bool, bodies: Bodies, captures: Handles
    ) -> Tuple[TfTensor, ...]:
        tf, raw, count = self.tf, self.raw, len(state)
        specs = [output.spec for output in self.node.outputs[count:]]
        increment, zero = [self.number(value, tf.int32) for value in (1, 0)]
        rounds = self.vector(length.scalars, tf.int32)[0]
        arrays = [
            tf.TensorArray(tf_dtype(tf, spec.dtype), rounds, element_shape=static_shape(spec.shape[1:]))
            for spec in specs
        ]

        def step(
            done: TfTensor, values: Handles, collected: Handles
        ) -> Tuple[TfTensor, List[TfTensor], List[TfTensorArray]]:
            index = raw.Sub(x=raw.Sub(x=rounds, y=increment), y=done) if reverse else done
            slices = [raw.GatherV2(params=x, indices=index, axis=zero) for x in xs]
            results = bodies[0](*values, *slices, *captures)
            for before, after in zip(values, results):
                self._set_shape(after, before.shape)
            written = [array.write(index, value) for array, value in zip(collected, results[count:])]
            return raw.AddV2(x=done, y=increment), list(results[:count]), written

        _, states, collected = tf.compat.v1.while_loop(
            self._on_device(lambda done, *_: raw.Less(x=done, y=rounds)),
            self._on_device(step),
            (zero, list(state), arrays),
            return_same_structure=True,
        )
        return (*states, *(self._stack_elements(array, rounds, length, spec) for array, spec in zip(collected, specs)))

    def gradient(self, *xs: TfTensor, bodies: Bodies, captures: Handles, refusal: str) -> Tuple[TfTensor, ...]:
        """Return, for each of `xs`, the gradient of the sum of the first output of `bodies[0]`, computed by TensorFlow.

        The gradient of an x on which the output does not depend is 0. `composed_gradient` of the core computes the
        gradients if an op has no registered gradient (LookupError), or a wrong one (`has_wrong_gradient`).

        `bodies[0]` is called with `xs` and `captures`. `refusal`: why the core cannot compute the gradients; "" if it
        can. Raises UnsupportedError with this reason if an op has no registered gradient and `refusal` is not "".
        """
        tf = self.tf
        if has_wrong_gradient(self.node.regions[0]):
            return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        try:
            if self.concrete:
                with tf.GradientTape() as tape:
                    tape.watch(xs)
                    y = bodies[0](*xs, *captures)[0]
                gradients = tape.gradient(y, xs)
            else:
                # Identities: otherwise paths from xs through operations outside of the body would count too.
                xs = tuple(self.raw.Identity(input=x) for x in xs)
                gradients = tf.gradients(bodies[0](*xs, *captures)[0], xs)
        except LookupError:
            return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        return tuple(tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for x, g in zip(xs, gradients))

    def _stack_elements(self, array: TfTensorArray, rounds: TfTensor, length: Sizes, spec: Spec) -> TfTensor:
        """Stack the elements of a TensorArray along a new first axis.

        rounds: the number of elements, as a tensor.
        length: the number of elements, as recorded in the program.
        spec: the type of the result.

        TensorArray.stack fails for an array without elements, if the shape of an element has unknown sizes. If `length`
        is not known either, a cond handles an array without elements. It then returns an empty tensor whose unknown
        sizes are 0.
        """
        sizes = static_shape(spec.shape[1:])
        if None not in sizes or length.known:
            return array.stack()
        dtype = tf_dtype(self.tf, spec.dtype)

        def empty_stack() -> TfTensor:
            return self.tf.zeros([0, *(size or 0 for size in sizes)], dtype)

        has_elements = self.raw.Less(x=self.number(0, self.tf.int32), y=rounds)
        return self.tf.compat.v1.cond(has_elements, array.stack, empty_stack)

    def _set_shape(self, handle: TfTensor, shape: TfShape) -> TfTensor:
        """Set the static shape of a tensor in place, and return the tensor.

        On an eager emitter, the tensor is returned unchanged.
        """
        if not self.concrete:
            handle.set_shape(shape)
        return handle
