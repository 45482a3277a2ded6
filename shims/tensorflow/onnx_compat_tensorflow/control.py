"""Branches and loops. Captured handles are read by the bodies as they are: TensorFlow carries them in."""

from typing import Any, Callable, List, Sequence, Tuple

from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.tensors import static_shape, tf_dtype

__all__ = ["Control"]

Bodies = Sequence[Callable[..., Sequence[Any]]]
Handles = Sequence[Any]


class Control(Base):
    """The primitives of `onnx_compat.primitives.control`."""

    def cond(self, pred: Any, *, bodies: Bodies, captures: Handles) -> Tuple[Any, ...]:
        shapes = [static_shape(output.spec.shape) for output in self.node.outputs]

        def branch(body: Callable[..., Sequence[Any]]) -> Callable[[], List[Any]]:
            # An identity: what passes through a branch unchanged has to belong to it.
            return lambda: [
                self._shaped_as(self.raw.Identity(input=result), shape)
                for result, shape in zip(body(*captures), shapes)
            ]

        flag = self.raw.Reshape(tensor=pred, shape=self.vector([], self.tf.int32))
        return tuple(self.tf.compat.v1.cond(flag, branch(bodies[0]), branch(bodies[1]), strict=True))

    def while_loop(self, *state: Any, bodies: Bodies, captures: Handles) -> Tuple[Any, ...]:
        tf = self.tf
        shapes = [static_shape(output.spec.shape) for output in self.node.outputs]
        test, body = bodies
        empty = self.vector([], tf.int32)
        return tuple(
            tf.compat.v1.while_loop(
                lambda *values: self.raw.Reshape(tensor=test(*values, *captures)[0], shape=empty),
                lambda *values: [self._shaped_as(*pair) for pair in zip(body(*values, *captures), shapes)],
                list(state),
                shape_invariants=[tf.TensorShape(shape) for shape in shapes],
                return_same_structure=True,
            )
        )

    def scan(
        self, state: Handles, xs: Handles, length: Any, *, reverse: bool, bodies: Bodies, captures: Handles
    ) -> Tuple[Any, ...]:
        tf, raw, count = self.tf, self.raw, len(state)
        specs = [output.spec for output in self.node.outputs[count:]]  # in a round `node` is the body's own
        one, zero = [self.number(value, tf.int32) for value in (1, 0)]
        rounds = self.vector(length.scalars, tf.int32)[0]
        arrays = [
            tf.TensorArray(tf_dtype(tf, spec.dtype), rounds, element_shape=static_shape(spec.shape[1:]))
            for spec in specs
        ]

        def step(done: Any, values: Handles, collected: Handles) -> Tuple[Any, Any, Any]:
            place = raw.Sub(x=raw.Sub(x=rounds, y=one), y=done) if reverse else done
            slices = [raw.GatherV2(params=x, indices=place, axis=zero) for x in xs]
            results = bodies[0](*values, *slices, *captures)
            for before, after in zip(values, results):
                self._shaped_as(after, before.shape)
            written = [array.write(place, value) for array, value in zip(collected, results[count:])]
            return raw.AddV2(x=done, y=one), list(results[:count]), written

        _, states, collected = tf.compat.v1.while_loop(
            lambda done, *_: raw.Less(x=done, y=rounds), step, (zero, list(state), arrays), return_same_structure=True
        )
        return (*states, *(self._stacked(array, rounds, length, spec) for array, spec in zip(collected, specs)))

    def gradient(self, *xs: Any, bodies: Bodies, captures: Handles, refusal: str) -> Tuple[Any, ...]:
        """TensorFlow's own; by the core's rules where one of its kernels has none."""
        tf = self.tf
        try:
            if self.concrete:
                with tf.GradientTape() as tape:
                    tape.watch(xs)
                    y = bodies[0](*xs, *captures)[0]
                found = tape.gradient(y, xs)
            else:
                xs = tuple(self.raw.Identity(input=x) for x in xs)  # what else reads these values is no variable
                found = tf.gradients(bodies[0](*xs, *captures)[0], xs)
        except LookupError:
            return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        return tuple(tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for x, g in zip(xs, found))

    def _stacked(self, array: Any, rounds: Any, length: Any, spec: Any) -> Any:
        """The elements along a new first axis. Of none at all TensorFlow does not know the unknown sizes: zero."""
        sizes = static_shape(spec.shape[1:])
        if None not in sizes or length.known:
            return array.stack()
        dtype = tf_dtype(self.tf, spec.dtype)

        def nothing() -> Any:
            return self.tf.zeros([0, *(size or 0 for size in sizes)], dtype)

        some = self.raw.Less(x=self.number(0, self.tf.int32), y=rounds)
        return self.tf.compat.v1.cond(some, array.stack, nothing)

    def _shaped_as(self, handle: Any, shape: Any) -> Any:
        """With the shape that the model tells of it, which TensorFlow may have lost."""
        if not self.concrete:
            handle.set_shape(shape)
        return handle
