"""The emitter for torch: it executes each primitive eagerly, so every shape and value is known.

torch lacks kernels for unsigned dtypes above eight bits. Handles store uint16 in int32, uint32 in int64, and the bits of uint64
in int64 (`on_torch_unsigned`).
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
import torch.nn.functional as F

from onnx_compat.shim import Const, DType, Node, Ref, Sizes, UnsupportedError
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.framework_types import Array, BackEndDevice, Bodies, DTypeOfBackEnd, Ints, Number, Scalar
from onnx_compat_keras.on_torch_unsigned import Unsigned64
from onnx_compat_keras.on_torch_windows import Windows

__all__ = ["TorchArrays"]

_STORAGE = {"uint16": torch.int32, "uint32": torch.int64, "uint64": torch.int64, "bool": torch.bool}
_CARRIED = ("uint16", "uint32")
_WINDOWS = frozenset(["conv", "depthwise_conv", "conv_transpose"])


class _Namespace:
    """The namespace `xp` of the emitter: the functions of torch under numpy's names and with numpy's arguments."""

    arcsin, arccos, arctan = torch.asin, torch.acos, torch.atan
    arcsinh, arccosh, arctanh, arctan2 = torch.asinh, torch.acosh, torch.atanh, torch.atan2
    equal, not_equal, less, less_equal = torch.eq, torch.ne, torch.lt, torch.le
    power, permute_dims, expand_dims = torch.pow, torch.permute, torch.unsqueeze
    left_shift, right_shift = torch.bitwise_left_shift, torch.bitwise_right_shift
    concatenate, floor_divide = torch.cat, torch.floor_divide

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def sign(x: torch.Tensor) -> torch.Tensor:
        return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)

    @staticmethod
    def trunc_divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.div(x, y, rounding_mode="trunc")

    @staticmethod
    def astype(x: torch.Tensor, dtype: DTypeOfBackEnd) -> torch.Tensor:
        return x.to(dtype)

    @staticmethod
    def take(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
        return torch.index_select(x, axis, indices)

    @staticmethod
    def take_along_axis(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
        return torch.gather(x, axis, indices.to(torch.int64))

    @staticmethod
    def sum(
        x: torch.Tensor, axis: Union[int, Ints], dtype: Optional[DTypeOfBackEnd] = None, keepdims: bool = False
    ) -> torch.Tensor:
        return torch.sum(x, axis, keepdim=keepdims, dtype=dtype)

    @staticmethod
    def prod(
        x: torch.Tensor, axis: int, dtype: Optional[DTypeOfBackEnd] = None, keepdims: bool = False
    ) -> torch.Tensor:
        return torch.prod(x, axis, keepdim=keepdims, dtype=dtype)

    @staticmethod
    def amax(x: torch.Tensor, axes: Ints, keepdims: bool = False) -> torch.Tensor:
        return torch.amax(x, axes, keepdim=keepdims)

    @staticmethod
    def amin(x: torch.Tensor, axes: Ints, keepdims: bool = False) -> torch.Tensor:
        return torch.amin(x, axes, keepdim=keepdims)

    @staticmethod
    def nonzero(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x, as_tuple=True)

    @staticmethod
    def asarray(value: Union[Array, Number], dtype: Optional[DTypeOfBackEnd] = None) -> torch.Tensor:
        return torch.as_tensor(value, dtype=dtype)


class _Tensors(Windows):
    """An emitter whose handles are torch tensors on `device`; None: the CPU.

    It computes uint64 as int64, with wrong results where the magnitude matters: see `TorchArrays`.
    """

    xp = _Namespace()
    back_end = "torch"
    concrete = True

    def __init__(self, device: Optional[BackEndDevice] = None) -> None:
        super().__init__()
        self.device = device

    @property
    def node(self) -> Node:
        """The node that is being emitted. Setting a node that `refusal` refuses raises its UnsupportedError."""
        return self._node

    @node.setter
    def node(self, node: Node) -> None:
        self._node = node
        refusal = self.refusal(node)
        if refusal is not None:
            raise refusal

    # -- values ------------------------------------------------------------------------------------------------------
    def array(self, values: np.ndarray, dtype: DType) -> torch.Tensor:
        if dtype.kind == "s":
            raise self.unsupported_error("strings")
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

    def values(self, handle: torch.Tensor, dtype: DType) -> np.ndarray:
        handle = handle.detach().resolve_conj().resolve_neg().cpu()
        if handle.dtype is torch.bfloat16:
            handle = handle.to(torch.float32)
        array: np.ndarray = handle.numpy()
        return array.view(np.uint64) if dtype.name == "uint64" else array.astype(dtype.numpy, copy=False)

    def dtype_of(self, handle: torch.Tensor) -> DType:
        return DType.of(str(handle.dtype).split(".")[-1])

    def element(self, handle: torch.Tensor, index: Optional[int]) -> int:
        return int(handle if index is None else handle[index])

    def number(self, scalar: Scalar) -> Number:
        return scalar.item()

    def like(self, number: Number, handle: torch.Tensor) -> torch.Tensor:
        return torch.tensor(number, dtype=handle.dtype, device=handle.device)

    def finish(self, handle: torch.Tensor, dtype: DType) -> torch.Tensor:
        if dtype.name in _CARRIED:
            return torch.bitwise_and(handle, self.like((1 << dtype.bits) - 1, handle))
        return super().finish(handle, dtype)

    def refusal(self, node: Node) -> Optional[UnsupportedError]:
        if node.primitive in _WINDOWS and node.outputs[0].spec.rank > 5:
            return self.unsupported_error("convolutions over more than three spatial axes")
        return super().refusal(node)

    def is_integral(self, x: torch.Tensor) -> bool:
        return not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)

    def is_signed(self, x: torch.Tensor) -> bool:
        return bool(x.dtype is not torch.uint8)

    def widen(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x

    def int64(self, indices: torch.Tensor) -> torch.Tensor:
        return indices.to(torch.int64)

    def cast(self, x: torch.Tensor, dtype: DType) -> torch.Tensor:
        if dtype.kind == "b":
            return torch.ne(x, self.like(0, x))
        if x.is_complex() and dtype.kind != "c":
            x = torch.real(x)
        return x.to(_storage(dtype))

    def bitcast(self, x: torch.Tensor, dtype: DType) -> torch.Tensor:
        """Reinterpret the bits of x, the first argument of the current node, as another dtype of the same width.

        Handles store uint16 in int32, and uint32 in int64. An x of such a dtype is first cast to the width of the
        dtype. A result of such a dtype is last cast to its storage dtype.
        """
        (source,) = self.node.args
        assert isinstance(source, (Ref, Const))
        narrow = x.to(_same_width(source.spec.dtype))
        return narrow.view(_same_width(dtype)).to(_storage(dtype))

    def reduce_mean(self, x: torch.Tensor, axes: Sequence[int], keepdims: bool = False) -> torch.Tensor:
        """Return the mean over axes, in the dtype of x. `axes` are not negative.

        For float32, and `axes` without the last axis, the mean is computed in float64, except on the device "mps". In
        float32, torch sums adjacent columns in different orders, so that equal columns would have different means.
        """
        if x.dtype is torch.float32 and x.ndim - 1 not in axes and x.device.type != "mps":
            return torch.mean(x, tuple(axes), keepdim=keepdims, dtype=torch.float64).to(torch.float32)
        return super().reduce_mean(x, axes, keepdims)

    # -- shape and indexing ----------------------------------------------------------------------------------------
    def transpose(self, x: torch.Tensor, perm: Sequence[int]) -> torch.Tensor:
        return x.permute(tuple(perm))

    def pad_constant(self, x: torch.Tensor, around: Sequence[Any], value: torch.Tensor) -> torch.Tensor:
        shape = [low + int(size) + high for (low, high), size in zip(around, x.shape)]
        out = value.to(x.dtype).reshape(()).expand(shape).clone()
        out[tuple(slice(low, low + int(size)) for (low, _), size in zip(around, x.shape))] = x
        return out

    def scatter_rows(self, table: torch.Tensor, rows: torch.Tensor, new: torch.Tensor, reduction: str) -> torch.Tensor:
        table = table.clone()
        if reduction == "none":
            order = torch.arange(len(rows), device=rows.device)
            last = torch.full((table.shape[0],), -1, device=rows.device).scatter_reduce(0, rows, order, "amax")
            kept = last[rows] == order
            table[rows[kept]] = new[kept]
            return table
        operation = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
        return table.scatter_reduce(0, rows[:, None].expand(new.shape), new, operation)

    def argsort(self, x: torch.Tensor, axis: int, descending: bool) -> torch.Tensor:
        return torch.sort(x, dim=axis, descending=descending, stable=True)[1]

    # -- products ----------------------------------------------------------------------------------------------------
    def matmul(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        bias: Optional[torch.Tensor] = None,
        transpose_x: bool = False,
        transpose_y: bool = False,
    ) -> torch.Tensor:
        left = torch.swapaxes(x, -1, -2) if transpose_x else x
        right = torch.swapaxes(y, -1, -2) if transpose_y else y
        if y.ndim == 2 and bias is not None and x.is_floating_point():
            return F.linear(left, right.T, bias)
        out = torch.matmul(left, right)
        return out if bias is None else out + bias

    # -- control flow ------------------------------------------------------------------------------------------------
    def cond(self, pred: torch.Tensor, *, bodies: Bodies, captures: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
        return tuple(bodies[0 if pred else 1](*captures))

    def while_loop(
        self, *state: torch.Tensor, bodies: Bodies, captures: Sequence[torch.Tensor]
    ) -> Tuple[torch.Tensor, ...]:
        test, body = bodies
        while test(*state, *captures)[0]:
            state = tuple(body(*state, *captures))
        return state

    def scan(
        self,
        state: Sequence[torch.Tensor],
        xs: Sequence[torch.Tensor],
        length: Sizes,
        *,
        reverse: bool,
        bodies: Bodies,
        captures: Sequence[torch.Tensor],
    ) -> Tuple[torch.Tensor, ...]:
        specs = [output.spec for output in self.node.outputs[len(state) :]]
        (count,) = numbers(length)

        def step(
            state: List[torch.Tensor], slices: List[torch.Tensor]
        ) -> Tuple[List[torch.Tensor], List[torch.Tensor]]:
            results = bodies[0](*state, *slices, *captures)
            return list(results[: len(state)]), list(results[len(state) :])

        state, ys = self.over_time(step, list(state), list(xs), reverse, count)
        if not count:  # without an iteration an unknown size is zero
            empty_specs = [
                spec._replace(shape=(0, *(n if isinstance(n, int) else 0 for n in spec.shape[1:]))) for spec in specs
            ]
            ys = [self.zeros(spec) for spec in empty_specs]
        return (*state, *ys)

    def gradient(
        self, *xs: torch.Tensor, bodies: Bodies, captures: Sequence[torch.Tensor], refusal: str
    ) -> Tuple[torch.Tensor, ...]:
        """Return, for each of `xs`, the gradient of the sum of the first output of `bodies[0]`, by torch.autograd.

        The gradient is 0 for an x that is no float, or on which the output does not depend. If torch raises
        RuntimeError, as for a kernel without a gradient, `composed_gradient` of the core computes the gradients.

        - bodies: the body, and its derivative, which only `composed_gradient` calls. With a `refusal`, the derivative
          is missing.
        - captures: the outer values that the bodies read, passed after `xs`.
        - refusal: why the core cannot compute the gradients; "" if it can. If torch raises RuntimeError and `refusal`
          is not "", UnsupportedError is raised with this reason.

        The tensors are cloned, because torch does not differentiate tensors created in inference mode. Inside of another
        gradient, the result has a gradient too.
        """
        create_graph = torch.is_grad_enabled() and any(x.requires_grad for x in (*xs, *captures))
        with torch.inference_mode(False), torch.enable_grad():
            variables = [x.clone().requires_grad_(x.is_floating_point()) for x in xs]
            try:
                y = bodies[0](*variables, *[capture.clone() for capture in captures])[0].sum()
                floats = [x for x in variables if x.requires_grad]
                gradients = (
                    torch.autograd.grad(y, floats, allow_unused=True, create_graph=create_graph)
                    if y.requires_grad
                    else [None] * len(floats)
                )
            except RuntimeError:
                return super().gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)
        remaining = iter(gradients)
        by_input = [next(remaining) if x.requires_grad else None for x in variables]
        return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(xs, by_input))

    def over_time(
        self,
        step: Callable[..., Tuple[List[torch.Tensor], List[torch.Tensor]]],
        state: List[torch.Tensor],
        xs: List[torch.Tensor],
        backwards: bool,
        length: Optional[int] = None,
    ) -> Tuple[List[torch.Tensor], List[torch.Tensor]]:
        """Run `state, ys = step(state, [x[k] for x in xs])` for each index k, and return (last state, stacked ys).

        `backwards`: from the last k to the first; the stacked ys keep the order of k. `length`: the number of indices.
        None: the length of the first axis of `xs[0]`. Without any index, the stacked ys are [].
        """
        count = int(xs[0].shape[0]) if length is None else length
        rounds: List[List[torch.Tensor]] = []
        for k in reversed(range(count)) if backwards else range(count):
            state, ys = step(state, [x[k] for x in xs])
            rounds.append(ys)
        return state, [torch.stack(list(ys)) for ys in zip(*(rounds[::-1] if backwards else rounds))]

    # -- random numbers ----------------------------------------------------------------------------------------------
    def _random(
        self, draw: Callable[..., torch.Tensor], shape: Sizes, dtype: DType, seed: Optional[float]
    ) -> torch.Tensor:
        generator = torch.Generator(device="cpu")
        if seed is None:
            generator.seed()
        else:
            high, low = divmod(int(np.asarray(seed, np.float64).view(np.uint64)), 2**32)
            generator.manual_seed(high ^ low)  # torch reads the lower half, which is 0 in the bits of a whole float
        drawn = draw(
            numbers(shape),
            generator=generator,
            dtype=torch.float64 if dtype.name == "float64" else torch.float32,
            device="cpu",
        )
        if draw is torch.rand:  # rounded down to the digits of the dtype: never up to 1
            digits = {"float64": 53, "float16": 11, "bfloat16": 8}.get(dtype.name, 24)
            drawn = torch.floor(drawn * 2.0**digits) / 2.0**digits
        drawn = drawn.to(_storage(dtype))
        return drawn if self.device is None else drawn.to(self.device)

    def random_uniform(self, shape: Sizes, dtype: DType, seed: Optional[float] = None) -> torch.Tensor:
        return self._random(torch.rand, shape, dtype, seed)

    def random_normal(self, shape: Sizes, dtype: DType, seed: Optional[float] = None) -> torch.Tensor:
        return self._random(torch.randn, shape, dtype, seed)

    def string_lower(self, x: torch.Tensor) -> torch.Tensor:
        raise self.unsupported_error("strings")

    string_upper = string_lower


class TorchArrays(Unsigned64, _Tensors):
    """The complete emitter for torch: methods of `Unsigned64`, which compute uint64 correctly, override `_Tensors`."""


def _same_width(dtype: DType) -> DTypeOfBackEnd:
    """Return a torch dtype with the width of a native ONNX dtype: int16 for uint16, int8 for bool, float32 for float32.

    For uint16, uint32, uint64 and bool, it is the signed integer of this width; for any other dtype, the dtype itself.
    """
    return getattr(torch, "int%d" % dtype.bits if dtype.name in _STORAGE else dtype.numpy.name)


def _storage(dtype: DType) -> DTypeOfBackEnd:
    """Return the torch dtype in which handles store an ONNX dtype.

    - uint16 is stored in int32, uint32 and uint64 in int64.
    - A carried dtype is stored in its carrier, except bfloat16, which is stored as bfloat16.
    - Any other dtype is stored as itself.
    """
    return torch.bfloat16 if dtype.name == "bfloat16" else _STORAGE.get(dtype.name) or getattr(torch, dtype.numpy.name)
