"""The primitives on JAX: jax.numpy and lax, which have exact integers and every kind of convolution.

JAX computes in 32 bits unless told otherwise. Whatever is traced or executed here happens inside `wide()`, a context of
this thread alone: the user's own setting is not touched.
"""

import math
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from onnx_compat.shim import DType, UnsupportedError
from onnx_compat_keras.arrays import Arrays
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.devices import scope
from onnx_compat_keras.features import wide

__all__ = ["JaxArrays"]


def fresh() -> np.uint32:
    """A number that nobody foretells: what random numbers without a seed begin with."""
    return np.uint32(np.random.SeedSequence().generate_state(1)[0])


class _Namespace:
    """jax.numpy, and what it keeps elsewhere."""

    erf = staticmethod(jax.scipy.special.erf)
    sigmoid = staticmethod(jax.nn.sigmoid)
    softmax = staticmethod(jax.nn.softmax)
    log_softmax = staticmethod(jax.nn.log_softmax)

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    @staticmethod
    def trunc_divide(x: Any, y: Any) -> Any:
        return lax.div(*jnp.broadcast_arrays(x, y))

    @staticmethod
    def power(x: Any, y: Any) -> Any:
        """Of integers, jax.numpy looks at six bits of the exponent only; a product of more factors wraps."""
        few = isinstance(y, np.ndarray) and (not y.size or y.max() < 64)
        return jnp.power(x, y) if few or not jnp.issubdtype(x.dtype, jnp.integer) else _squared(x, y)

    @staticmethod
    def reshape(x: Any, shape: Sequence[int]) -> Any:
        return np.reshape(x, shape) if isinstance(x, np.ndarray) else jnp.reshape(x, shape)

    @staticmethod
    def take(x: Any, indices: Any, axis: int) -> Any:
        return jnp.take(x, indices, axis, mode="clip")

    @staticmethod
    def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
        return jnp.take_along_axis(x, indices, axis, mode="clip")

    @staticmethod
    def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
        known = all(isinstance(array, np.ndarray) for array in arrays)
        return np.stack(arrays, axis) if known else jnp.stack(arrays, axis)

    @staticmethod
    def asarray(value: Any, dtype: Any = None) -> Any:
        return jnp.asarray(value, dtype) if isinstance(value, jax.Array) else np.asarray(value, dtype)


class JaxArrays(Arrays):
    """Arrays of JAX: concrete ones when executing, tracers when compiling."""

    xp = _Namespace()
    back_end = "JAX"

    def __init__(self, concrete: bool) -> None:
        super().__init__()
        self.concrete = concrete
        self.drawn = 0

    # -- values ------------------------------------------------------------------------------------------------------
    def array(self, values: np.ndarray, dtype: DType) -> Any:
        if dtype.kind == "s":
            raise self.refused("text")
        return np.asarray(values).astype(_storage(dtype), copy=False)

    def values(self, handle: Any, dtype: DType) -> np.ndarray:
        return np.asarray(handle).astype(dtype.numpy, copy=False)

    def dtype_of(self, handle: Any) -> DType:
        return DType.of(handle.dtype)

    def element(self, handle: Any, index: Optional[int]) -> Any:
        scalar = handle if index is None else handle[index]
        return scalar if isinstance(handle, jax.core.Tracer) else int(scalar)

    def number(self, scalar: Any) -> Any:
        if isinstance(scalar, jax.core.Tracer):
            raise UnsupportedError("JAX compiles a range for bounds that are numbers; these are computed")
        return np.asarray(scalar).item()

    def integral(self, x: Any) -> bool:
        return bool(jnp.issubdtype(x.dtype, jnp.integer))

    def signed(self, x: Any) -> bool:
        return bool(jnp.issubdtype(x.dtype, jnp.signedinteger))

    def wide(self, x: Any) -> Any:
        return x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x

    def int64(self, indices: Any) -> Any:
        return indices.astype(jnp.int64)

    def cast(self, x: Any, dtype: DType) -> Any:
        if dtype.kind == "b":
            return self.xp.not_equal(x, self.like(0, x))
        if jnp.issubdtype(x.dtype, jnp.complexfloating) and dtype.kind != "c":
            x = jnp.real(x)
        if isinstance(x, np.ndarray):
            x = jnp.asarray(x)
        return x.astype(_storage(dtype))

    def bitcast(self, x: Any, dtype: DType) -> Any:
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            x = jnp.stack([jnp.real(x), jnp.imag(x)], -1)  # two of half the width make one
        if dtype.kind != "c":
            return lax.bitcast_convert_type(x, dtype.numpy)
        parts = lax.bitcast_convert_type(x, np.empty(0, dtype.numpy).real.dtype)
        return lax.complex(parts[..., 0], parts[..., 1])

    # -- shape and indexing ----------------------------------------------------------------------------------------
    def surrounded(self, x: Any, around: Sequence[Any], value: Any) -> Any:
        return lax.pad(x, jnp.asarray(value).astype(x.dtype).reshape(()), [(low, high, 0) for low, high in around])

    def scattered(self, table: Any, rows: Any, new: Any, reduction: str) -> Any:
        at = jnp.asarray(table).at
        if reduction == "none":
            order = jnp.arange(new.shape[0], dtype=rows.dtype)
            last = jnp.full(table.shape[:1], -1, rows.dtype).at[rows].max(order)
            rows = jnp.where(last[rows] == order, rows, table.shape[0])  # the others fall off the end
            return at[rows].set(new, mode="drop")
        return getattr(at[rows], {"mul": "multiply"}.get(reduction, reduction))(new)

    def ordered(self, x: Any, axis: int, descending: bool) -> Any:
        return jnp.argsort(x, axis, stable=True, descending=descending).astype(jnp.int64)

    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        if x.dtype == jnp.uint64:
            return jnp.sum(x, tuple(axes), keepdims=keepdims) // max(math.prod(x.shape[axis] for axis in axes), 1)
        mean = super().reduce_mean(x, axes, keepdims)
        return mean if self.integral(x) else _rounded(mean)

    # -- products ----------------------------------------------------------------------------------------------------
    def matmul(self, x: Any, y: Any, bias: Any = None, transpose_x: bool = False, transpose_y: bool = False) -> Any:
        left = jnp.swapaxes(x, -1, -2) if transpose_x else x
        right = jnp.swapaxes(y, -1, -2) if transpose_y else y
        out = jnp.matmul(left, right)
        return out if bias is None else out + bias

    def conv(
        self,
        x: Any,
        w: Any,
        bias: Any = None,
        *,
        strides: Any,
        dilations: Any,
        pads: Any,
        groups: int,
        spread: Any = None,
    ) -> Any:
        space = "012345678"[: x.ndim - 2]
        numbers_of = ("N%sC" % space, "%sIO" % space, "N%sC" % space)
        out = lax.conv_general_dilated(
            x,
            w,
            strides,
            pads,
            spread,
            dilations,
            numbers_of,
            feature_group_count=groups,
            preferred_element_type=x.dtype,
        )
        return out if bias is None else out + bias

    def depthwise_conv(self, x: Any, w: Any, bias: Any = None, **params: Any) -> Any:
        return self.conv(x, jnp.expand_dims(w[0], -2), bias, **params)

    def conv_transpose(self, x: Any, w: Any, bias: Any = None, *, strides: Any, dilations: Any, groups: int) -> Any:
        kernel, (inputs, outputs) = w.shape[:-2], w.shape[-2:]
        space = tuple(range(len(kernel)))
        split = jnp.reshape(w, (*kernel, groups, inputs // groups, outputs))
        joined = jnp.reshape(jnp.swapaxes(split, -3, -2), (*kernel, inputs // groups, groups * outputs))
        full = [((size - 1) * dilation,) * 2 for size, dilation in zip(kernel, dilations)]
        return self.conv(
            x, jnp.flip(joined, space), bias, strides=(1,) * len(kernel), dilations=dilations, pads=full, groups=groups,
            spread=strides,
        )  # fmt: skip

    def _pooled(self, x: Any, start: Any, combine: Any, kernel: Any, strides: Any, dilations: Any, pads: Any) -> Any:
        around = ((0, 0), *pads, (0, 0))
        return lax.reduce_window(
            x, np.asarray(start, x.dtype), combine, (1, *kernel, 1), (1, *strides, 1), around, None, (1, *dilations, 1)
        )

    def max_pool(self, x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any) -> Any:
        least = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
        return self._pooled(x, least, lax.max, kernel, strides, dilations, pads)

    def avg_pool(self, x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
        total = self._pooled(self.wide(x), 0, lax.add, kernel, strides, dilations, [(0, 0)] * len(kernel))
        return (total / self.like(int(np.prod(kernel)), total)).astype(x.dtype)

    def upsampled(self, x: Any, factors: Sequence[int], mode: str) -> Any:
        if mode == "bilinear":
            sizes = [size * factor for size, factor in zip(x.shape, (1, *factors, 1))]
            return jax.image.resize(x, sizes, "linear")
        for axis, factor in enumerate(factors, 1):
            x = jnp.repeat(x, factor, axis)
        return x

    # -- control flow ------------------------------------------------------------------------------------------------
    def cond(self, pred: Any, *, bodies: Any, captures: Any) -> Tuple[Any, ...]:
        if self.concrete:
            return tuple(bodies[0 if pred else 1](*captures))
        then_body, else_body = [lambda body=body: [jnp.asarray(r) for r in body(*captures)] for body in bodies]
        return tuple(lax.cond(jnp.reshape(pred, ()), then_body, else_body))

    def while_loop(self, *state: Any, bodies: Any, captures: Any) -> Tuple[Any, ...]:
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

    def scan(self, state: Any, xs: Any, length: Any, *, reverse: bool, bodies: Any, captures: Any) -> Tuple[Any, ...]:
        (count,) = numbers(length)

        def step(state: List[Any], slices: List[Any]) -> Tuple[List[Any], List[Any]]:
            results = [jnp.asarray(r) for r in bodies[0](*state, *slices, *captures)]
            return results[: len(state)], results[len(state) :]

        state, ys = self.over_time(step, list(map(jnp.asarray, state)), list(xs), reverse, count)
        return (*state, *ys)

    def gradient(self, *xs: Any, bodies: Any, captures: Any, refusal: str) -> Tuple[Any, ...]:
        """JAX's own; by the core's rules through a loop of unknown length, which JAX only goes through forwards."""
        xs = tuple(map(jnp.asarray, xs))
        floats = [k for k, x in enumerate(xs) if jnp.issubdtype(x.dtype, jnp.floating)]

        def value(*variables: Any) -> Any:
            given = dict(zip(floats, variables))
            return jnp.sum(bodies[0](*[given.get(k, x) for k, x in enumerate(xs)], *captures)[0])

        try:
            found = jax.grad(value, tuple(range(len(floats))))(*[xs[k] for k in floats]) if floats else ()
        except ValueError:
            return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        by_place = dict(zip(floats, found))
        return tuple(by_place.get(k, jnp.zeros_like(x)) for k, x in enumerate(xs))

    def over_time(
        self,
        step: Callable[..., Tuple[List[Any], List[Any]]],
        state: List[Any],
        xs: List[Any],
        backwards: bool,
        length: Optional[int] = None,
    ) -> Tuple[List[Any], List[Any]]:
        state, ys = lax.scan(step, list(map(jnp.asarray, state)), xs, length=length, reverse=backwards)
        return state, ys

    # -- random numbers ----------------------------------------------------------------------------------------------
    def _key(self, seed: Optional[float]) -> Any:
        if seed is not None:
            return jax.random.key(int(np.asarray(seed, np.float64).view(np.uint64) % np.uint64(2**63)))
        self.drawn += 1
        entropy = fresh() if self.entropy is None else self.entropy
        return jax.random.fold_in(jax.random.key(entropy), self.drawn)

    def random_uniform(self, shape: Any, dtype: DType, seed: Optional[float] = None) -> Any:
        return jax.random.uniform(self._key(seed), numbers(shape), _storage(dtype))

    def random_normal(self, shape: Any, dtype: DType, seed: Optional[float] = None) -> Any:
        return jax.random.normal(self._key(seed), numbers(shape), _storage(dtype))

    def string_lower(self, x: Any) -> Any:
        raise self.refused("text")

    string_upper = string_lower


def _squared(x: Any, y: Any) -> Any:
    """x to the power of y, integers that are not negative, by squaring x as often as y has bits."""

    def step(state: Any) -> Any:
        total, factor, left = state
        return jnp.where(left & 1 == 1, total * factor, total), factor * factor, left >> 1

    x, y = jnp.broadcast_arrays(x, y)
    return lax.while_loop(lambda state: jnp.any(state[2] != 0), step, (jnp.ones_like(x), x, y))[0]


def _rounded(x: Any) -> Any:
    """x itself, in a form that XLA does not take apart: a mean divides, the division becomes a product, and the product
    may become part of a later subtraction, unrounded. Of huge numbers the difference to their maximum is then anything.
    """
    return jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x)


def _storage(dtype: DType) -> Any:
    """The numpy type of handles."""
    return jnp.bfloat16 if dtype.name == "bfloat16" else dtype.numpy


def _in_wide(method: Callable[..., Any]) -> Callable[..., Any]:
    def widened(*args: Any, **kwargs: Any) -> Any:
        with wide():
            return method(*args, **kwargs)

    return widened


class JaxExecutor(JaxArrays):
    """Executes each primitive at once, each inside `wide()`: between two of them the user's own setting holds."""

    def __init__(self, device: Optional[str] = None) -> None:
        super().__init__(concrete=True)
        self.device = device

    @contextmanager
    def placed(self) -> Iterator[None]:
        with scope(self.device):
            yield

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return _in_wide(found) if callable(found) and not name.startswith("_") and name != "xp" else found
