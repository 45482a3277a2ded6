"""The primitives on torch, executed at once: every shape and every value is there to be looked at.

Unsigned types of more than eight bits are carried in wider signed ones (uint16 in int32, uint32 in int64), and uint64 as
the bits of int64 (`on_torch_unsigned`).
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.nn.functional as F

from onnx_compat.shim import DType, Node, UnsupportedError
from onnx_compat_keras.arrays import Arrays
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.on_torch_unsigned import Unsigned64
from onnx_compat_keras.on_torch_windows import Windows

__all__ = ["TorchArrays"]

_STORAGE = {"uint16": torch.int32, "uint32": torch.int64, "uint64": torch.int64, "bool": torch.bool}
_CARRIED = ("uint16", "uint32")
_WINDOWS = frozenset(["conv", "depthwise_conv", "conv_transpose"])


class _Namespace:
    """torch under numpy's names."""

    arcsin, arccos, arctan = torch.asin, torch.acos, torch.atan
    arcsinh, arccosh, arctanh, arctan2 = torch.asinh, torch.acosh, torch.atanh, torch.atan2
    equal, not_equal, less, less_equal = torch.eq, torch.ne, torch.lt, torch.le
    power, permute_dims, expand_dims = torch.pow, torch.permute, torch.unsqueeze
    left_shift, right_shift = torch.bitwise_left_shift, torch.bitwise_right_shift
    concatenate, floor_divide = torch.cat, torch.floor_divide

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def sign(x: Any) -> Any:
        return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)

    @staticmethod
    def trunc_divide(x: Any, y: Any) -> Any:
        return torch.div(x, y, rounding_mode="trunc")

    @staticmethod
    def astype(x: Any, dtype: Any) -> Any:
        return x.to(dtype)

    @staticmethod
    def take(x: Any, indices: Any, axis: int) -> Any:
        return torch.index_select(x, axis, indices)

    @staticmethod
    def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
        return torch.gather(x, axis, indices.to(torch.int64))

    @staticmethod
    def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
        return torch.sum(x, axis, keepdim=keepdims, dtype=dtype)

    @staticmethod
    def prod(x: Any, axis: int, dtype: Any = None, keepdims: bool = False) -> Any:
        return torch.prod(x, axis, keepdim=keepdims, dtype=dtype)

    @staticmethod
    def amax(x: Any, axes: Any, keepdims: bool = False) -> Any:
        return torch.amax(x, axes, keepdim=keepdims)

    @staticmethod
    def amin(x: Any, axes: Any, keepdims: bool = False) -> Any:
        return torch.amin(x, axes, keepdim=keepdims)

    @staticmethod
    def nonzero(x: Any) -> Any:
        return torch.nonzero(x, as_tuple=True)

    @staticmethod
    def asarray(value: Any, dtype: Any = None) -> Any:
        return torch.as_tensor(value, dtype=dtype)


class _Tensors(Windows, Arrays):
    """Tensors of torch, on one device; uint64 as if they were signed."""

    xp = _Namespace()
    back_end = "torch"
    concrete = True

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self.device = device

    @property
    def node(self) -> Node:
        """The node under way; one that cannot be done is refused before anything of it is."""
        return self._node

    @node.setter
    def node(self, node: Node) -> None:
        self._node = node
        refusal = self.refusal(node)
        if refusal is not None:
            raise refusal

    # -- values ------------------------------------------------------------------------------------------------------
    def array(self, values: np.ndarray, dtype: DType) -> Any:
        if dtype.kind == "s":
            raise self.refused("text")
        values = np.asarray(values)
        if dtype.name == "uint64":
            values = values.view(np.int64) if values.ndim else values.astype(np.int64)
        elif dtype.name in _CARRIED:
            values = values.astype(np.int32 if dtype.name == "uint16" else np.int64)
        if not values.flags.writeable or any(stride < 0 for stride in values.strides) or not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="), order="C", copy=True)
        tensor = torch.from_numpy(values) if values.ndim else torch.tensor(values[()], device="cpu")
        if dtype.name == "bfloat16":
            tensor = tensor.to(torch.bfloat16)
        return tensor if self.device is None else tensor.to(self.device)

    def values(self, handle: Any, dtype: DType) -> np.ndarray:
        handle = handle.detach().resolve_conj().resolve_neg().cpu()
        if handle.dtype is torch.bfloat16:
            handle = handle.to(torch.float32)
        array: np.ndarray = handle.numpy()
        return array.view(np.uint64) if dtype.name == "uint64" else array.astype(dtype.numpy, copy=False)

    def dtype_of(self, handle: Any) -> DType:
        return DType.of(str(handle.dtype).split(".")[-1])

    def element(self, handle: Any, index: Optional[int]) -> int:
        return int(handle if index is None else handle[index])

    def number(self, scalar: Any) -> Any:
        return scalar.item()

    def like(self, number: Any, handle: Any) -> Any:
        return torch.tensor(number, dtype=handle.dtype, device=handle.device)

    def finish(self, handle: Any, dtype: DType) -> Any:
        if dtype.name in _CARRIED:
            return torch.bitwise_and(handle, self.like((1 << dtype.bits) - 1, handle))
        return super().finish(handle, dtype)

    def refusal(self, node: Node) -> Optional[UnsupportedError]:
        if node.primitive in _WINDOWS and node.outputs[0].spec.rank > 5:
            return self.refused("convolutions over more than three spatial axes")
        return super().refusal(node)

    def integral(self, x: Any) -> bool:
        return not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)

    def signed(self, x: Any) -> bool:
        return bool(x.dtype is not torch.uint8)

    def wide(self, x: Any) -> Any:
        return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x

    def int64(self, indices: Any) -> Any:
        return indices.to(torch.int64)

    def cast(self, x: Any, dtype: DType) -> Any:
        if dtype.kind == "b":
            return torch.ne(x, self.like(0, x))
        if x.is_complex() and dtype.kind != "c":
            x = torch.real(x)
        return x.to(_storage(dtype))

    def bitcast(self, x: Any, dtype: DType) -> Any:
        """Between types of the true width: what is carried in a wider one is brought there and back."""
        (source,) = self.node.args
        narrow = x.to(_same_width(source.spec.dtype))  # type: ignore[union-attr]
        return narrow.view(_same_width(dtype)).to(_storage(dtype))

    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        """Across a row torch adds some columns up in another order than their neighbours: equal ones then differ."""
        if x.dtype is torch.float32 and x.ndim - 1 not in axes and x.device.type != "mps":
            return torch.mean(x, tuple(axes), keepdim=keepdims, dtype=torch.float64).to(torch.float32)
        return super().reduce_mean(x, axes, keepdims)

    # -- shape and indexing ----------------------------------------------------------------------------------------
    def transpose(self, x: Any, perm: Sequence[int]) -> Any:
        return x.permute(tuple(perm))

    def surrounded(self, x: Any, around: Sequence[Any], value: Any) -> Any:
        shape = [low + int(size) + high for (low, high), size in zip(around, x.shape)]
        out = value.to(x.dtype).reshape(()).expand(shape).clone()
        out[tuple(slice(low, low + int(size)) for (low, _), size in zip(around, x.shape))] = x
        return out

    def scattered(self, table: Any, rows: Any, new: Any, reduction: str) -> Any:
        table = table.clone()
        if reduction == "none":
            order = torch.arange(len(rows), device=rows.device)
            last = torch.full((table.shape[0],), -1, device=rows.device).scatter_reduce(0, rows, order, "amax")
            kept = last[rows] == order
            table[rows[kept]] = new[kept]
            return table
        how = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
        return table.scatter_reduce(0, rows[:, None].expand(new.shape), new, how)

    def ordered(self, x: Any, axis: int, descending: bool) -> Any:
        return torch.sort(x, dim=axis, descending=descending, stable=True)[1]

    # -- products ----------------------------------------------------------------------------------------------------
    def matmul(self, x: Any, y: Any, bias: Any = None, transpose_x: bool = False, transpose_y: bool = False) -> Any:
        left = torch.swapaxes(x, -1, -2) if transpose_x else x
        right = torch.swapaxes(y, -1, -2) if transpose_y else y
        if y.ndim == 2 and bias is not None and x.is_floating_point():
            return F.linear(left, right.T, bias)
        out = torch.matmul(left, right)
        return out if bias is None else out + bias

    # -- control flow ------------------------------------------------------------------------------------------------
    def cond(self, pred: Any, *, bodies: Any, captures: Any) -> Tuple[Any, ...]:
        return tuple(bodies[0 if pred else 1](*captures))

    def while_loop(self, *state: Any, bodies: Any, captures: Any) -> Tuple[Any, ...]:
        test, body = bodies
        while test(*state, *captures)[0]:
            state = tuple(body(*state, *captures))
        return state

    def scan(self, state: Any, xs: Any, length: Any, *, reverse: bool, bodies: Any, captures: Any) -> Tuple[Any, ...]:
        specs = [output.spec for output in self.node.outputs[len(state) :]]  # in a round `node` is the body's own
        (count,) = numbers(length)

        def step(state: List[Any], slices: List[Any]) -> Tuple[List[Any], List[Any]]:
            results = bodies[0](*state, *slices, *captures)
            return results[: len(state)], results[len(state) :]

        state, ys = self.over_time(step, list(state), list(xs), reverse, count)
        if not count:  # a size that only a round could have told is zero
            kinds = [
                spec._replace(shape=(0, *(n if isinstance(n, int) else 0 for n in spec.shape[1:]))) for spec in specs
            ]
            ys = [self.zeros(kind) for kind in kinds]
        return (*state, *ys)

    def gradient(self, *xs: Any, bodies: Any, captures: Any, refusal: str) -> Tuple[Any, ...]:
        """Torch's own; by the core's rules where one of its kernels has none. Copies: what was made in inference mode
        takes no part in a derivative.
        """
        with torch.inference_mode(False), torch.enable_grad():
            variables = [x.clone().requires_grad_(x.is_floating_point()) for x in xs]
            try:
                y = bodies[0](*variables, *[one.clone() for one in captures])[0].sum()
                floats = [x for x in variables if x.requires_grad]
                found = torch.autograd.grad(y, floats, allow_unused=True) if y.requires_grad else [None] * len(floats)
            except RuntimeError:
                return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        left = iter(found)
        derived = [next(left) if x.requires_grad else None for x in variables]
        return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(xs, derived))

    def over_time(
        self,
        step: Callable[..., Tuple[List[Any], List[Any]]],
        state: List[Any],
        xs: List[Any],
        backwards: bool,
        length: Optional[int] = None,
    ) -> Tuple[List[Any], List[Any]]:
        count = int(xs[0].shape[0]) if length is None else length
        rounds: List[List[Any]] = []
        for k in reversed(range(count)) if backwards else range(count):
            state, ys = step(state, [x[k] for x in xs])
            rounds.append(ys)
        return state, [torch.stack(list(ys)) for ys in zip(*(rounds[::-1] if backwards else rounds))]

    # -- random numbers ----------------------------------------------------------------------------------------------
    def _random(self, draw: Any, shape: Any, dtype: DType, seed: Optional[float]) -> Any:
        generator = torch.Generator(device="cpu")
        if seed is None:
            generator.seed()
        else:
            high, low = divmod(int(np.asarray(seed, np.float64).view(np.uint64)), 2**32)
            generator.manual_seed(high ^ low)  # torch looks at the lower half, which whole numbers leave empty
        drawn = draw(
            numbers(shape),
            generator=generator,
            dtype=torch.float64 if dtype.name == "float64" else torch.float32,
            device="cpu",
        )
        if draw is torch.rand:  # rounded down to what the dtype can tell apart below one: never one itself
            digits = {"float64": 53, "float16": 11, "bfloat16": 8}.get(dtype.name, 24)
            drawn = torch.floor(drawn * 2.0**digits) / 2.0**digits
        drawn = drawn.to(_storage(dtype))
        return drawn if self.device is None else drawn.to(self.device)

    def random_uniform(self, shape: Any, dtype: DType, seed: Optional[float] = None) -> Any:
        return self._random(torch.rand, shape, dtype, seed)

    def random_normal(self, shape: Any, dtype: DType, seed: Optional[float] = None) -> Any:
        return self._random(torch.randn, shape, dtype, seed)

    def string_lower(self, x: Any) -> Any:
        raise self.refused("text")

    string_upper = string_lower


class TorchArrays(Unsigned64, _Tensors):
    """All of it."""


def _same_width(dtype: DType) -> Any:
    """The torch type that has as many bits as the type itself."""
    return getattr(torch, "int%d" % dtype.bits if dtype.name in _STORAGE else dtype.numpy.name)


def _storage(dtype: DType) -> Any:
    """The torch type of handles."""
    return torch.bfloat16 if dtype.name == "bfloat16" else _STORAGE.get(dtype.name) or getattr(torch, dtype.numpy.name)
