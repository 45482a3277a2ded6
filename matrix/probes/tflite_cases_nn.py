# mypy: disable-error-code="misc"
"""Cases for the operators of neural networks (convolutions, pools, ...), small enough to compute in plain numpy."""

from typing import Any, Tuple

import numpy as np

from matrix.probes.tflite_cases import FLOATS, add, case, ints, known, sample

Array = Any  # an array of any dtype


def _windows(x: Array, kernel: Tuple[int, ...]) -> Array:
    """Return all windows of size `kernel` over x [batch, *spatial, channels], with stride 1 and without padding.

    The result has the shape [batch, *positions, *kernel, channels].
    """
    positions = [size - k + 1 for size, k in zip(x.shape[1:-1], kernel)]
    out = np.empty((x.shape[0], *positions, *kernel, x.shape[-1]), np.float64)
    for position in np.ndindex(*positions):
        window = tuple(slice(p, p + k) for p, k in zip(position, kernel))
        out[(slice(None), *position)] = x[(slice(None), *window)]
    return out


VALID = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
POOL = {**VALID, "filter_width": 2, "filter_height": 2}


def _conv(d: str) -> Any:
    x, w, b = sample(d, (1, 4, 4, 3)), sample(d, (2, 3, 3, 3), seed=2), sample(d, (2,), seed=3)
    y = np.einsum("nhwijc,oijc->nhwo", _windows(x, (3, 3)), w.astype("float64")) + b
    return case([x, known(w), known(b)], y.astype(d), **VALID)


def _conv_free(d: str) -> Any:
    """Return the case of `_conv` with run-time weights and bias."""
    constant_case = _conv(d)
    return case(
        [constant_case.inputs[0], constant_case.constants[1], constant_case.constants[2]],
        constant_case.outputs,
        **constant_case.options,
    )


def _grouped_conv(d: str) -> Any:
    x, w, b = sample(d, (1, 4, 4, 4)), sample(d, (4, 3, 3, 2), seed=2), sample(d, (4,), seed=3)
    halves = [
        np.einsum("nhwijc,oijc->nhwo", _windows(x[..., 2 * g : 2 * g + 2], (3, 3)), w[2 * g : 2 * g + 2])
        for g in (0, 1)
    ]
    return case([x, known(w), known(b)], (np.concatenate(halves, -1) + b).astype(d), **VALID)


def _depthwise(d: str) -> Any:
    x, w, b = sample(d, (1, 4, 4, 2)), sample(d, (1, 3, 3, 4), seed=2), sample(d, (4,), seed=3)
    y = (
        np.einsum("nhwijc,ijcm->nhwcm", _windows(x, (3, 3)), w.reshape(3, 3, 2, 2).astype("float64")).reshape(
            1, 2, 2, 4
        )
        + b
    )
    return case([x, known(w), known(b)], y.astype(d), depth_multiplier=2, **VALID)


def _conv_transpose(d: str, bias: bool) -> Any:
    x, w, b = sample(d, (1, 2, 2, 2)), sample(d, (3, 3, 3, 2), seed=2), sample(d, (3,), seed=3)
    y = np.zeros((1, 5, 5, 3))
    for i, j in np.ndindex(2, 2):
        y[0, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum(
            "c,ohwc->hwo", x[0, i, j].astype("float64"), w.transpose(0, 1, 2, 3)
        )
    options = {"padding": "VALID", "stride_w": 2, "stride_h": 2}
    tail = [known(b)] if bias else []
    return case([ints(1, 5, 5, 3), known(w), x, *tail], (y + b if bias else y).astype(d), **options)


def _conv3d(d: str) -> Any:
    x, w, b = sample(d, (1, 3, 3, 3, 2)), sample(d, (2, 2, 2, 2, 3), seed=2), sample(d, (3,), seed=3)
    y = np.einsum("nabcijkd,ijkdo->nabco", _windows(x, (2, 2, 2)), w.astype("float64")) + b
    return case([x, known(w), known(b)], y.astype(d), stride_d=1, **VALID)


def _conv3d_transpose(d: str) -> Any:
    x, w = sample(d, (1, 2, 2, 2, 2)), sample(d, (2, 2, 2, 3, 2), seed=2)
    y = np.zeros((1, 3, 3, 3, 3))
    for i, j, k in np.ndindex(2, 2, 2):
        y[0, i : i + 2, j : j + 2, k : k + 2] += np.einsum("c,abdoc->abdo", x[0, i, j, k].astype("float64"), w)
    return case([ints(1, 3, 3, 3, 3), known(w), x], y.astype(d), stride_d=1, **VALID)


def _pool(d: str, kind: str) -> Any:
    x = sample(d, (1, 3, 3, 2), small=True)
    windows = _windows(x, (2, 2))
    reduced = {"MAX": windows.max((3, 4)), "AVERAGE": windows.mean((3, 4)), "L2": np.sqrt((windows**2).mean((3, 4)))}[
        kind
    ]
    return case([x], reduced.astype(d), **POOL)


def _dense(d: str, shape: Tuple[int, ...] = (2, 3), keep: bool = False) -> Any:
    x, w, b = sample(d, shape, True), sample(d, (4, 3), True, seed=2), sample(d, (4,), True, seed=3)
    y = (x.reshape(-1, 3).astype("float64") @ w.T.astype("float64") + b).astype(d)
    return case([x, known(w), known(b)], y.reshape(*shape[:-1], 4) if keep else y, keep_num_dims=keep)


def _dense_free(d: str) -> Any:
    x, w = sample(d, (2, 3), True), sample(d, (4, 3), True, seed=2)
    return case([x, w], (x.astype("float64") @ w.T).astype(d))


def _matmul(d: str, left: Tuple[int, ...], right: Tuple[int, ...], constant: bool = False, **flags: bool) -> Any:
    a, b = sample(d, left, True), sample(d, right, True, seed=2)
    x = a.swapaxes(-1, -2) if flags.get("adj_x") else a
    y = b.swapaxes(-1, -2) if flags.get("adj_y") else b
    return case(
        [a, known(b) if constant else b], np.matmul(x.astype("float64"), y.astype("float64")).astype(d), **flags
    )


def _softmax(x: Array) -> Array:
    e = np.exp(x.astype("float64"))
    return e / e.sum(-1, keepdims=True)


def _lrn(d: str) -> Any:
    x = sample(d, (1, 1, 1, 4))
    padded = np.pad(x.astype("float64") ** 2, [(0, 0)] * 3 + [(1, 1)], mode="constant")
    total = sum(padded[..., k : k + 4] for k in range(3))
    return case([x], (x / np.sqrt(1 + 0.5 * total)).astype(d), radius=1, bias=1.0, alpha=0.5, beta=0.5)


def _resize(d: str, **options: bool) -> Any:
    x = sample(d, (1, 2, 2, 1), True)
    return case([x, ints(4, 4)], x.repeat(2, 1).repeat(2, 2), **options)


def _bilinear(d: str, **options: bool) -> Any:
    x = np.array([0, 4], d).reshape(1, 1, 2, 1)
    pixels = {"": [0, 2, 4, 4], "half_pixel_centers": [0, 1, 3, 4], "align_corners": [0, 4 / 3, 8 / 3, 4]}
    return case([x, ints(1, 4)], np.array(pixels["".join(options)]).astype(d).reshape(1, 1, 4, 1), **options)


FEW = [*FLOATS, "int8", "int16", "int32", "int64"]
add("CONV_2D", "", FEW, _conv)
add("CONV_2D", "run-time weights", FLOATS, _conv_free)
add("CONV_2D", "grouped", FLOATS, _grouped_conv)
add("DEPTHWISE_CONV_2D", "", FLOATS, _depthwise)
add("TRANSPOSE_CONV", "", FLOATS, lambda d: _conv_transpose(d, False))
add("TRANSPOSE_CONV", "bias", FLOATS, lambda d: _conv_transpose(d, True))
add("CONV_3D", "", FLOATS, _conv3d)
add("CONV_3D_TRANSPOSE", "", FLOATS, _conv3d_transpose)
for _kind in ("MAX", "AVERAGE", "L2"):
    add(_kind + "_POOL_2D", "", FEW, lambda d, k=_kind: _pool(d, k))
add("FULLY_CONNECTED", "", FEW, _dense)
add("FULLY_CONNECTED", "keep_num_dims", FLOATS, lambda d: _dense(d, (2, 2, 3), True))
add("FULLY_CONNECTED", "run-time weights", FLOATS, _dense_free)
add("BATCH_MATMUL", "", FEW, lambda d: _matmul(d, (2, 2, 3), (2, 3, 4)))
add("BATCH_MATMUL", "none", ["float32"], lambda d: _matmul(d, (2, 2, 0), (2, 0, 4)))
add("BATCH_MATMUL", "rank 2", FEW, lambda d: _matmul(d, (2, 3), (3, 4)))
add("BATCH_MATMUL", "constant", FEW, lambda d: _matmul(d, (2, 2, 3), (3, 4), constant=True))
add("BATCH_MATMUL", "broadcast rank 4", FEW, lambda d: _matmul(d, (2, 1, 2, 3), (2, 3, 4)))
add("BATCH_MATMUL", "broadcast rank 5", FEW, lambda d: _matmul(d, (2, 1, 2, 2, 3), (2, 3, 4)))
add("BATCH_MATMUL", "broadcast rank 6", FEW, lambda d: _matmul(d, (1, 2, 1, 2, 2, 3), (2, 3, 4)))
add("BATCH_MATMUL", "adj_x", FEW, lambda d: _matmul(d, (2, 3, 2), (2, 3, 4), adj_x=True))
add("BATCH_MATMUL", "adj_y", FEW, lambda d: _matmul(d, (2, 2, 3), (2, 4, 3), adj_y=True))
for _shape in ((4,), (2, 3), (2, 2, 3), (1, 2, 2, 3), (1, 1, 2, 2, 3)):
    _feature = "" if len(_shape) == 2 else "rank %d" % len(_shape)
    add(
        "SOFTMAX",
        _feature,
        FLOATS,
        lambda d, s=_shape: case([sample(d, s)], _softmax(sample(d, s)).astype(d), beta=1.0),
    )
    add(
        "LOG_SOFTMAX",
        _feature,
        FLOATS,
        lambda d, s=_shape: case([sample(d, s)], np.log(_softmax(sample(d, s))).astype(d)),
    )
add(
    "L2_NORMALIZATION",
    "",
    FLOATS,
    lambda d: case(
        [sample(d)], (sample(d) / np.sqrt((sample(d).astype("float64") ** 2).sum(-1, keepdims=True))).astype(d)
    ),
)
add("LOCAL_RESPONSE_NORMALIZATION", "", FLOATS, _lrn)
add(
    "PRELU",
    "",
    FLOATS,
    lambda d: case(
        [sample(d), known(sample(d, (3,), seed=2))],
        np.where(sample(d) < 0, sample(d) * sample(d, (3,), seed=2), sample(d)),
    ),
)
add(
    "PRELU",
    "rank 5",
    FLOATS,
    lambda d: case(
        [sample(d, (1, 1, 2, 2, 3)), known(sample(d, (3,), seed=2))],
        np.where(
            sample(d, (1, 1, 2, 2, 3)) < 0,
            sample(d, (1, 1, 2, 2, 3)) * sample(d, (3,), seed=2),
            sample(d, (1, 1, 2, 2, 3)),
        ),
    ),
)
for _flags in ({}, {"half_pixel_centers": True}):
    add("RESIZE_NEAREST_NEIGHBOR", "".join(_flags), [*FEW, "uint8", "bool"], lambda d, f=_flags: _resize(d, **f))
for _flags in ({}, {"half_pixel_centers": True}, {"align_corners": True}):
    add("RESIZE_BILINEAR", "".join(_flags), FEW, lambda d, f=_flags: _bilinear(d, **f))
