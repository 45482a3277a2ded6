"""The emitter for JAX: it applies primitives as functions of jax.numpy and jax.lax.

JAX computes in 32 bits by default. So tracing and execution have to run inside `wide()`, which enables 64 bits in this
thread only. `JaxExecutor` enters it by itself; for `JaxArrays` the caller does. The user's own setting is not changed.
"""

import math
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from onnx_compat.shim import DType, Sizes, UnsupportedError, Window
from onnx_compat_keras.arrays import Arrays
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.devices import scope
from onnx_compat_keras.features import wide
from onnx_compat_keras.framework_types import Array, Bodies, DTypeOfBackEnd, Ints, Number, Pads, Scalar

__all__ = ["JaxArrays", "JaxExecutor", "new_entropy"]


def new_entropy() -> np.uint32:
    """Return an unpredictable uint32, the seed for random primitives that have no seed."""
    return np.uint32(np.random.SeedSequence().generate_state(1)[0])


class _Namespace:
    """The namespace `xp` of the emitter: jax.numpy, plus functions of other JAX modules.

    The static methods add `trunc_divide`, and replace functions of jax.numpy where the emitter needs other behaviour.
    """

    erf = staticmethod(jax.scipy.special.erf)
    sigmoid = staticmethod(jax.nn.sigmoid)
    softmax = staticmethod(jax.nn.softmax)
    log_softmax = staticmethod(jax.nn.log_softmax)

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    @staticmethod
    def trunc_divide(x: Array, y: Array) -> Array:
        return lax.div(*jnp.broadcast_arrays(x, y))

    @staticmethod
    def power(x: Array, y: Array) -> Array:
        """Return x ** y. If x has integers, y must not be negative.

        jnp.power reads only the low six bits of an integer y. So integers are multiplied in a loop, unless y is a numpy
        array with all elements below 64.
        """
        is_small = isinstance(y, np.ndarray) and (not y.size or y.max() < 64)
        return jnp.power(x, y) if is_small or not jnp.issubdtype(x.dtype, jnp.integer) else _power_by_squaring(x, y)

    @staticmethod
    def reshape(x: Array, shape: Sequence[int]) -> Array:
        return np.reshape(x, shape) if isinstance(x, np.ndarray) else jnp.reshape(x, shape)

    @staticmethod
    def take(x: Array, indices: Array, axis: int) -> Array:
        return jnp.take(x, indices, axis, mode="clip")

    @staticmethod
    def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
        return jnp.take_along_axis(x, indices, axis, mode="clip")

    @staticmethod
    def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
        known = all(isinstance(array, np.ndarray) for array in arrays)
        return np.stack(arrays, axis) if known else jnp.stack(arrays, axis)

    @staticmethod
    def asarray(value: Union[Array, Number], dtype: Optional[DTypeOfBackEnd] = None) -> Array:
        return jnp.asarray(value, dtype) if isinstance(value, jax.Array) else np.asarray(value, dtype)


class JaxArrays(Arrays):
    """An emitter whose handles are JAX arrays, or numpy arrays for constants. The caller enters `wide()`.

    `concrete`: True to execute eagerly, so that each handle has values. False to compile with jax.jit: a handle that
    depends on an input is a tracer, without values.
    """

    xp = _Namespace()
    back_end = "JAX"

    def __init__(self, concrete: bool) -> None:
        super().__init__()
        self.concrete = concrete
        self.drawn = 0

    # -- values ------------------------------------------------------------------------------------------------------
    def array(self, values: np.ndarray, dtype: DType) -> Array:
        if dtype.kind == "s":
            raise self.unsupported_error("strings")
        return np.asarray(values).astype(_storage(dtype), copy=False)

    def values(self, handle: Array, dtype: DType) -> np.ndarray:
        return np.asarray(handle).astype(dtype.numpy, copy=False)

    def dtype_of(self, handle: Array) -> DType:
        return DType.of(handle.dtype)

    def element(self, handle: Array, index: Optional[int]) -> Scalar:
        scalar = handle if index is None else handle[index]
        return scalar if isinstance(handle, jax.core.Tracer) else int(scalar)

    def number(self, scalar: Scalar) -> Number:
        if isinstance(scalar, jax.core.Tracer):
            raise UnsupportedError("JAX compiles a range for known bounds only; these bounds are computed at run time")
        return np.asarray(scalar).item()

    def is_integral(self, x: Array) -> bool:
        return bool(jnp.issubdtype(x.dtype, jnp.integer))

    def is_signed(self, x: Array) -> bool:
        return bool(jnp.issubdtype(x.dtype, jnp.signedinteger))

    def widen(self, x: Array) -> Array:
        return x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x

    def int64(self, indices: Array) -> Array:
        return indices.astype(jnp.int64)

    def cast(self, x: Array, dtype: DType) -> Array:
        if dtype.kind == "b":
            return self.xp.not_equal(x, self.like(0, x))
        if jnp.issubdtype(x.dtype, jnp.complexfloating) and dtype.kind != "c":
            x = jnp.real(x)
        if isinstance(x, np.ndarray):
            x = jnp.asarray(x)
        return x.astype(_storage(dtype))

    def bitcast(self, x: Array, dtype: DType) -> Array:
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            x = jnp.stack(
                [jnp.real(x), jnp.imag(x)], -1
            )  # lax packs a last axis of two real numbers into a complex one
        if dtype.kind != "c":
            return lax.bitcast_convert_type(x, dtype.numpy)
        parts = lax.bitcast_convert_type(x, np.empty(0, dtype.numpy).real.dtype)
        return lax.complex(parts[..., 0], parts[..., 1])

    # -- shape and indexing ----------------------------------------------------------------------------------------
    def pad_constant(self, x: Array, around: Pads, value: Array) -> Array:
        return lax.pad(x, jnp.asarray(value).astype(x.dtype).reshape(()), [(low, high, 0) for low, high in around])

    def scatter_rows(self, table: Array, rows: Array, new: Array, reduction: str) -> Array:
        at = jnp.asarray(table).at
        if reduction == "none":
            order = jnp.arange(new.shape[0], dtype=rows.dtype)
            last = jnp.full(table.shape[:1], -1, rows.dtype).at[rows].max(order)
            rows = jnp.where(last[rows] == order, rows, table.shape[0])  # an index out of bounds is dropped
            return at[rows].set(new, mode="drop")
        return getattr(at[rows], {"mul": "multiply"}.get(reduction, reduction))(new)

    def argsort(self, x: Array, axis: int, descending: bool) -> Array:
        return jnp.argsort(x, axis, stable=True, descending=descending).astype(jnp.int64)

    def reduce_mean(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        if x.dtype == jnp.uint64:
            return jnp.sum(x, tuple(axes), keepdims=keepdims) // max(math.prod(x.shape[axis] for axis in axes), 1)
        mean = super().reduce_mean(x, axes, keepdims)
        return mean if self.is_integral(x) else _keep_rounding(mean)

    # -- products ----------------------------------------------------------------------------------------------------
    def matmul(
        self, x: Array, y: Array, bias: Optional[Array] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Array:
        left = jnp.swapaxes(x, -1, -2) if transpose_x else x
        right = jnp.swapaxes(y, -1, -2) if transpose_y else y
        out = jnp.matmul(left, right)
        return out if bias is None else out + bias

    def conv(
        self,
        x: Array,
        w: Array,
        bias: Optional[Array] = None,
        *,
        window: Window,
        groups: int,
        spread: Optional[Ints] = None,
    ) -> Array:
        """Convolve x [batch, spatial..., channels] by w [spatial..., input channels of a group, output channels].

        `spread`: the lhs dilation of each spatial axis: a factor of 2 first changes the elements [a, b] of x to [a, 0,
        b]. None: x is not changed.
        """
        space = "012345678"[: x.ndim - 2]
        numbers_of = ("N%sC" % space, "%sIO" % space, "N%sC" % space)
        out = lax.conv_general_dilated(
            x,
            w,
            window.strides,
            window.pads,
            spread,
            window.dilations,
            numbers_of,
            feature_group_count=groups,
            preferred_element_type=x.dtype,
        )
        return out if bias is None else out + bias

    def depthwise_conv(self, x: Array, w: Array, bias: Optional[Array] = None, **params: Any) -> Array:
        return self.conv(x, jnp.expand_dims(w[0], -2), bias, **params)

    def conv_transpose(self, x: Array, w: Array, bias: Optional[Array] = None, *, window: Window, groups: int) -> Array:
        kernel, (inputs, outputs) = w.shape[:-2], w.shape[-2:]
        space = tuple(range(len(kernel)))
        split = jnp.reshape(w, (*kernel, groups, inputs // groups, outputs))
        joined = jnp.reshape(jnp.swapaxes(split, -3, -2), (*kernel, inputs // groups, groups * outputs))
        full = [((size - 1) * dilation,) * 2 for size, dilation in zip(kernel, window.dilations)]
        dense = Window.of(kernel, None, window.dilations, full)
        return self.conv(x, jnp.flip(joined, space), bias, window=dense, groups=groups, spread=window.strides)

    def _reduce_windows(
        self, x: Array, start: Number, combine: Callable[[Array, Array], Array], window: Window
    ) -> Array:
        kernel, strides, dilations, pads = window
        around = ((0, 0), *pads, (0, 0))
        return lax.reduce_window(
            x, np.asarray(start, x.dtype), combine, (1, *kernel, 1), (1, *strides, 1), around, None, (1, *dilations, 1)
        )

    def max_pool(self, x: Array, window: Window) -> Array:
        least = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
        return self._reduce_windows(x, least, lax.max, window)

    def avg_pool(self, x: Array, window: Window) -> Array:
        total = self._reduce_windows(self.widen(x), 0, lax.add, window)
        return (total / self.like(int(np.prod(window.kernel)), total)).astype(x.dtype)

    def upsample(self, x: Array, factors: Sequence[int], mode: str) -> Array:
        if mode == "bilinear":
            sizes = [size * factor for size, factor in zip(x.shape, (1, *factors, 1))]
            return jax.image.resize(x, sizes, "linear")
        for axis, factor in enumerate(factors, 1):
            x = jnp.repeat(x, factor, axis)
        return x

    # -- control flow ------------------------------------------------------------------------------------------------
    def cond(self, pred: Array, *, bodies: Bodies, captures: Sequence[Array]) -> Tuple[Array, ...]:
        if self.concrete:
            return tuple(bodies[0 if pred else 1](*captures))
        then_body, else_body = [lambda body=body: [jnp.asarray(r) for r in body(*captures)] for body in bodies]
        return tuple(lax.cond(jnp.reshape(pred, ()), then_body, else_body))

    def while_loop(self, *state: Array, bodies: Bodies, captures: Sequence[Array]) -> Tuple[Array, ...]:
        test, body = bodies
        if self.concrete:
            while test(*state, *captures)[0]:
                state = tuple(body(*state, *captures))
            return state
        return tuple(
            lax.while_loop(
                lambda values: jnp.reshape(test(*values, *captures)[0], ()),
                lambda values: tuple(jnp.asarray(r) for r in body(*values, *captures)),
                tuple(map(jnp.asarray, state)),
            )
        )

    def scan(
        self,
        state: Sequence[Array],
        xs: Sequence[Array],
        length: Sizes,
        *,
        reverse: bool,
        bodies: Bodies,
        captures: Sequence[Array],
    ) -> Tuple[Array, ...]:
        (count,) = numbers(length)

        def step(state: List[Array], slices: List[Array]) -> Tuple[List[Array], List[Array]]:
            results = [jnp.asarray(r) for r in bodies[0](*state, *slices, *captures)]
            return results[: len(state)], results[len(state) :]

        state, ys = self.over_time(step, list(map(jnp.asarray, state)), list(xs), reverse, count)
        return (*state, *ys)

    def gradient(self, *xs: Array, bodies: Bodies, captures: Sequence[Array], refusal: str) -> Tuple[Array, ...]:
        """Return, for each of `xs`, the gradient of the sum of the first output of `bodies[0]`, computed by jax.grad.

        The gradient of an x that is no float is 0. If jax.grad raises ValueError, as for a loop of unknown length,
        `composed_gradient` of the core computes the gradients.

        `refusal`: why the core cannot compute the gradients; "" if it can. Raises UnsupportedError with this reason if
        jax.grad raises ValueError and `refusal` is not "".
        """
        xs = tuple(map(jnp.asarray, xs))
        floats = [k for k, x in enumerate(xs) if jnp.issubdtype(x.dtype, jnp.floating)]

        def value(*variables: Array) -> Array:
            replaced = dict(zip(floats, variables))
            return jnp.sum(bodies[0](*[replaced.get(k, x) for k, x in enumerate(xs)], *captures)[0])

        try:
            gradients = jax.grad(value, tuple(range(len(floats))))(*[xs[k] for k in floats]) if floats else ()
        except ValueError:
            return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        by_index = dict(zip(floats, gradients))
        return tuple(by_index.get(k, jnp.zeros_like(x)) for k, x in enumerate(xs))

    def over_time(
        self,
        step: Callable[..., Tuple[List[Array], List[Array]]],
        state: List[Array],
        xs: List[Array],
        backwards: bool,
        length: Optional[int] = None,
    ) -> Tuple[List[Array], List[Array]]:
        """Run `state, ys = step(state, [x[k] for x in xs])` for each index k, and return (last state, stacked ys).

        `backwards`: from the last k to the first; the stacked ys keep the order of k. `length`: the number of indices.
        None: the length of the first axis of the arrays `xs`, of which there must be at least one.
        """
        state, ys = lax.scan(step, list(map(jnp.asarray, state)), xs, length=length, reverse=backwards)
        return state, ys

    # -- random numbers ----------------------------------------------------------------------------------------------
    def _key(self, seed: Optional[float]) -> Any:
        """Return the JAX key of a float seed. For None, return another key at each call, derived from `entropy`."""
        if seed is not None:
            return jax.random.key(int(np.asarray(seed, np.float64).view(np.uint64) % np.uint64(2**63)))
        self.drawn += 1
        entropy = new_entropy() if self.entropy is None else self.entropy
        return jax.random.fold_in(jax.random.key(entropy), self.drawn)

    def random_uniform(self, shape: Sizes, dtype: DType, seed: Optional[float] = None) -> Array:
        return jax.random.uniform(self._key(seed), numbers(shape), _storage(dtype))

    def random_normal(self, shape: Sizes, dtype: DType, seed: Optional[float] = None) -> Array:
        return jax.random.normal(self._key(seed), numbers(shape), _storage(dtype))

    def string_lower(self, x: Array) -> Array:
        raise self.unsupported_error("strings")

    string_upper = string_lower


def _power_by_squaring(x: Array, y: Array) -> Array:
    """Return x ** y for integers, broadcast, by exponentiation by squaring.

    If any y is negative, the loop does not end.
    """

    def step(state: Tuple[Array, Array, Array]) -> Tuple[Array, Array, Array]:
        total, factor, left = state
        return jnp.where(left & 1 == 1, total * factor, total), factor * factor, left >> 1

    x, y = jnp.broadcast_arrays(x, y)
    return lax.while_loop(lambda state: jnp.any(state[2] != 0), step, (jnp.ones_like(x), x, y))[0]


def _keep_rounding(x: Array) -> Array:
    """Return the mean x unchanged, as the result of a jnp.where: XLA then does not fuse x with a later subtraction.

    XLA computes a mean as a product. In a fusion with the subtraction, the product is not rounded. For huge numbers,
    the difference is then arbitrary.
    """
    return jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x)


def _storage(dtype: DType) -> DTypeOfBackEnd:
    """Return the dtype in which handles store an ONNX dtype: jnp.bfloat16 for bfloat16, else `dtype.numpy`."""
    return jnp.bfloat16 if dtype.name == "bfloat16" else dtype.numpy


def _in_wide(method: Callable[..., Any]) -> Callable[..., Any]:
    def call_in_wide(*args: Any, **kwargs: Any) -> Any:
        with wide():
            return method(*args, **kwargs)

    return call_in_wide


class JaxExecutor(JaxArrays):
    """An emitter that executes each primitive eagerly. `device_context` selects `device`; None: JAX chooses the device.

    Each call of a public method runs inside `wide()`: 64-bit dtypes are enabled during the call only.
    """

    def __init__(self, device: Optional[str] = None) -> None:
        super().__init__(concrete=True)
        self.device = device

    @contextmanager
    def device_context(self) -> Iterator[None]:
        with scope(self.device):
            yield

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return _in_wide(value) if callable(value) and not name.startswith("_") and name != "xp" else value
