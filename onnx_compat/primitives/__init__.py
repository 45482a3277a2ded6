"""The primitives: everything that the meaning of an operator may be made of, and all that a shim has to offer.

Each is a function over Tensors with an exact meaning (its docstring), a rule for the shape and dtype of its result and
one for the layout. The numpy shim (`onnx_compat.reference`) is the executable definition. `PRIMITIVES` lists those that
a shim implements; the other functions here are made of them.
"""

from onnx_compat.primitives.base import PRIMITIVES, Primitive
from onnx_compat.primitives.control import cond, scan, while_loop
from onnx_compat.primitives.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    clip,
    cos,
    cosh,
    div,
    equal,
    erf,
    exp,
    floor,
    floordiv,
    fmod,
    greater,
    greater_equal,
    is_inf,
    is_nan,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    mul,
    neg,
    not_equal,
    pow,
    relu,
    round,
    shift_left,
    shift_right,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    sub,
    tan,
    tanh,
    where,
)
from onnx_compat.primitives.indexing import (
    argmax,
    argmin,
    cumsum,
    gather_nd,
    nonnegative,
    nonzero,
    one_hot,
    scatter_nd,
    take,
    take_along,
    top_k,
)
from onnx_compat.primitives.linear import avg_pool, conv, conv_transpose, matmul, max_pool, window
from onnx_compat.primitives.random import random_normal, random_uniform
from onnx_compat.primitives.reduction import (
    log_softmax,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    softmax,
)
from onnx_compat.primitives.shape import (
    arange,
    axis_of,
    broadcast_to,
    concat,
    full,
    iota,
    pad,
    reshape,
    reverse,
    shape_of,
    slice,
    slice_axis,
    split,
    squeeze,
    stack,
    tile,
    transpose,
    unsqueeze,
)
from onnx_compat.primitives.text import string_lower, string_upper

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("base", "elementwise", "shape", "text")]
