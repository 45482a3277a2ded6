# mypy: disable-error-code="misc"
"""Cases for the operators that move or select elements."""

from typing import Any

import numpy as np

from matrix.probes.tflite_cases import EVERY, NUMBERS, add, case, ints, known, positive, sample

Array = Any  # an array of any dtype
MOVED = EVERY
INDEX = ("int32", "int64")


def _feature_name(feature: str, index: str, plain: str = "int32") -> str:
    """Return the name of a feature with the dtype of its index operands: "rank 4 int64 index". `plain` is not named."""
    return feature if index == plain else (feature + " " if feature else "") + index + " index"


add(
    "BROADCAST_TO", "none", ["float32"], lambda d: case([known(np.zeros((), d)), ints(2, 0, 3)], np.zeros((2, 0, 3), d))
)
for _i in INDEX:
    add(
        "RESHAPE",
        _feature_name("", _i),
        MOVED,
        lambda d, i=_i: case([sample(d), ints(3, 2, dtype=i)], sample(d).reshape(3, 2)),
    )
    for _rank in (3, 4, 5, 6, 7):

        def _transpose(d: str, rank: int = _rank, i: str = _i) -> Any:
            x = sample(d, (2, 3, 1, 2, 2, 1, 2)[:rank])
            perm = [*range(1, rank), 0]
            return case([x, ints(*perm, dtype=i)], x.transpose(perm).copy())

        add("TRANSPOSE", _feature_name("" if _rank == 3 else "rank %d" % _rank, _i), MOVED, _transpose)
    for _rank in (2, 4, 5, 6):

        def _slice(d: str, rank: int = _rank, i: str = _i) -> Any:
            x = sample(d, (3,) * rank)
            return case([x, ints(*[1] * rank, dtype=i), ints(*[2] * rank, dtype=i)], x[(slice(1, 3),) * rank].copy())

        def _strided_slice(d: str, rank: int = _rank, i: str = _i) -> Any:
            x = sample(d, (4,) * rank)
            edges = [ints(*[value] * rank, dtype=i) for value in (3, -5, -2)]
            return case([x, *edges], x[(slice(3, None, -2),) * rank].copy())

        def _pad(d: str, rank: int = _rank, i: str = _i) -> Any:
            x = sample(d, (2,) * rank)
            return case([x, known(np.array([[1, 2]] * rank, i))], np.pad(x, [(1, 2)] * rank, mode="constant"))

        def _padv2(d: str, rank: int = _rank, i: str = _i) -> Any:
            x, value = sample(d, (2,) * rank), positive(d, (1,)).reshape(())
            padded = np.pad(x, [(1, 2)] * rank, mode="constant", constant_values=value)
            return case([x, known(np.array([[1, 2]] * rank, i)), known(value)], padded.astype(d))

        _feature = _feature_name("" if _rank == 2 else "rank %d" % _rank, _i)
        add("SLICE", _feature, MOVED, _slice)
        add("STRIDED_SLICE", _feature, MOVED, _strided_slice)
        add("PAD", _feature, [*NUMBERS, "bool"], _pad)
        add("PADV2", _feature, [*NUMBERS, "bool"], _padv2)

        def _broadcast(d: str, rank: int = _rank, i: str = _i) -> Any:
            x, shape = sample(d, (2, 1)), (*(2,) * (rank - 1), 3)
            return case([x, ints(*shape, dtype=i)], np.broadcast_to(x, shape).copy())

        add("BROADCAST_TO", _feature, MOVED, _broadcast)

        def _tile(d: str, rank: int = _rank, i: str = _i) -> Any:
            x = sample(d, (2,) * rank)
            return case([x, ints(*range(1, rank + 1), dtype=i)], np.tile(x, range(1, rank + 1)))

        add("TILE", _feature, MOVED, _tile)
    for _mode in ("reflect", "symmetric"):

        def _mirror(d: str, mode: Any = _mode, i: str = _i) -> Any:
            x = sample(d, (3, 4))
            return case(
                [x, known(np.array([[1, 2], [2, 0]], i))], np.pad(x, [(1, 2), (2, 0)], mode=mode), mode=mode.upper()
            )

        add("MIRROR_PAD", _feature_name(_mode, _i), NUMBERS, _mirror)
    add(
        "EXPAND_DIMS",
        _feature_name("", _i),
        MOVED,
        lambda d, i=_i: case([sample(d), ints(-1, dtype=i)], sample(d)[..., None]),
    )
    add(
        "FILL",
        _feature_name("", _i),
        MOVED,
        lambda d, i=_i: case(
            [ints(2, 3, dtype=i), sample(d, (1,)).reshape(())],
            np.full((2, 3), sample(d, (1,))[0], dtype=sample(d).dtype),
        ),
    )
    add(
        "GATHER",
        _feature_name("", _i),
        MOVED,
        lambda d, i=_i: case([sample(d, (4, 3)), np.array([2, 0], i)], sample(d, (4, 3))[[2, 0]], axis=0),
    )
    add(
        "GATHER",
        _feature_name("axis", _i),
        MOVED,
        lambda d, i=_i: case(
            [sample(d, (2, 4, 3)), np.array([[2], [0]], i)], sample(d, (2, 4, 3))[:, [[2], [0]]], axis=1
        ),
    )
    add(
        "GATHER",
        _feature_name("batch", _i),
        MOVED,
        lambda d, i=_i: case(
            [sample(d, (2, 4)), np.array([[2, 1], [0, 3]], i)],
            np.take_along_axis(sample(d, (2, 4)), np.array([[2, 1], [0, 3]]), 1),
            axis=1,
            batch_dims=1,
        ),
    )
    add(
        "GATHER_ND",
        _feature_name("", _i),
        MOVED,
        lambda d, i=_i: case([sample(d, (3, 4)), np.array([[2, 1], [0, 3]], i)], sample(d, (3, 4))[[2, 0], [1, 3]]),
    )

    def _scatter(d: str, i: str = _i) -> Any:
        values = sample(d, (2, 3))
        out = np.zeros((4, 3), values.dtype)
        out[[2, 0]] = values
        return case([np.array([[2], [0]], i), values, ints(4, 3, dtype=i)], out)

    def _accumulate(d: str, i: str = _i) -> Any:
        values = sample(d, (2,), True)
        return case([np.array([[1], [1]], i), values, ints(3, dtype=i)], np.array([0, values.sum(), 0]).astype(d))

    add("SCATTER_ND", _feature_name("", _i), [*NUMBERS, "bool"], _scatter)
    add("SCATTER_ND", _feature_name("adds duplicates", _i), NUMBERS, _accumulate)

    def _one_hot(d: str, i: str = _i) -> Any:
        on, off = positive(d, (1,)).reshape(()), np.zeros((), d)
        out = np.where(np.eye(3, dtype=bool)[[2, 0]], on, off).astype(d)
        return case([np.array([2, 0], i), known(np.int32(3)), known(on), known(off)], out, axis=-1)

    add("ONE_HOT", _feature_name("", _i), [*NUMBERS, "bool"], _one_hot)
    add(
        "SHAPE",
        "" if _i == "int32" else "int64 output",
        MOVED,
        lambda d, i=_i: case([sample(d)], np.array([2, 3], i), out_type=i),
    )

    def _update(d: str, i: str = _i) -> Any:
        x, part = sample(d, (4, 3)), sample(d, (2, 2), seed=4)
        out = x.copy()
        out[1:3, 1:3] = part
        return case([x, part, np.array([1, 1], i)], out)

    add("DYNAMIC_UPDATE_SLICE", _feature_name("", _i), [*NUMBERS, "bool"], _update)

    def _reverse_sequence(d: str, i: str = _i) -> Any:
        x = sample(d, (2, 4))
        out = x.copy()
        out[0, :3], out[1, :2] = x[0, :3][::-1], x[1, :2][::-1]
        return case([x, np.array([3, 2], i)], out, seq_dim=1, batch_dim=0)

    add("REVERSE_SEQUENCE", _feature_name("", _i), NUMBERS, _reverse_sequence)

    def _topk(d: str, i: str = _i) -> Any:
        x = np.array([[3, 1, 2, 4], [1, 4, 3, 2]], d)
        values = np.array([[4, 3], [4, 3]], d)
        return case([x, known(np.array(2, i))], [values, np.array([[3, 0], [1, 2]], np.int32)])

    def _topk_none(d: str, i: str = _i) -> Any:
        """Return a case of TOPK_V2 with k = 0 and two rows."""
        return case([sample(d), known(np.array(0, i))], [np.zeros((2, 0), d), np.zeros((2, 0), np.int32)])

    add("TOPK_V2", _feature_name("", _i), NUMBERS, _topk)
    add("TOPK_V2", _feature_name("none", _i), NUMBERS, _topk_none)

    def _unique(d: str, i: str = _i) -> Any:
        x = positive(d, (6,)) if d != "bool" else sample(d, (6,))
        order = list(dict.fromkeys(x.tolist()))
        return case([x], [np.array(order, d), np.array([order.index(v) for v in x.tolist()], i)], idx_out_type=i)

    add("UNIQUE", "" if _i == "int32" else "int64 output", NUMBERS, _unique)

for _feature, _masks, _index in (
    ("ellipsis_mask", {"ellipsis_mask": 1}, (Ellipsis, slice(0, 2))),
    ("new_axis_mask", {"new_axis_mask": 1}, (None, slice(0, 2))),
    ("shrink_axis_mask", {"shrink_axis_mask": 1}, (0, slice(0, 2))),
    ("begin_mask end_mask", {"begin_mask": 3, "end_mask": 3}, (slice(None), slice(None))),
):

    def _masked_slice(d: str, masks: Any = _masks, index: Any = _index) -> Any:
        x = sample(d, (2, 3))
        return case([x, ints(0, 0), ints(1, 2), ints(1, 1)], x[index].copy(), **masks)

    add("STRIDED_SLICE", _feature, MOVED, _masked_slice)

add("CONCATENATION", "empty part", MOVED, lambda d: case([sample(d), sample(d, (2, 0))], sample(d), axis=1))
add(
    "CONCATENATION",
    "",
    MOVED,
    lambda d: case([sample(d), sample(d, seed=2)], np.concatenate([sample(d), sample(d, seed=2)], 1), axis=1),
)
add(
    "CONCATENATION",
    "rank 6",
    MOVED,
    lambda d: case(
        [sample(d, (2,) * 6), sample(d, (2,) * 6, seed=2)],
        np.concatenate([sample(d, (2,) * 6), sample(d, (2,) * 6, seed=2)], 1),
        axis=1,
    ),
)
add(
    "SPLIT",
    "",
    MOVED,
    lambda d: case([known(np.int32(1)), sample(d, (2, 4))], np.split(sample(d, (2, 4)), 2, 1), num_splits=2),
)
add(
    "SPLIT_V",
    "",
    MOVED,
    lambda d: case(
        [sample(d, (2, 4)), ints(1, 3), known(np.int32(1))],
        [sample(d, (2, 4))[:, :1].copy(), sample(d, (2, 4))[:, 1:].copy()],
        num_splits=2,
    ),
)
add(
    "PACK",
    "",
    MOVED,
    lambda d: case([sample(d), sample(d, seed=2)], np.stack([sample(d), sample(d, seed=2)], 1), values_count=2, axis=1),
)
add(
    "UNPACK",
    "",
    MOVED,
    lambda d: case(
        [sample(d, (3, 2))], [sample(d, (3, 2))[:, 0].copy(), sample(d, (3, 2))[:, 1].copy()], num=2, axis=1
    ),
)
add("SQUEEZE", "", MOVED, lambda d: case([sample(d, (2, 1, 3))], sample(d, (2, 1, 3))[:, 0], squeeze_dims=[1]))
add("REVERSE_V2", "", MOVED, lambda d: case([sample(d), ints(1)], sample(d)[:, ::-1].copy()))
add("REVERSE_V2", "two axes", MOVED, lambda d: case([sample(d), ints(0, 1)], sample(d)[::-1, ::-1].copy()))
add("RANK", "", MOVED, lambda d: case([sample(d)], np.array(2, np.int32)))
add(
    "SELECT",
    "",
    MOVED,
    lambda d: case(
        [sample("bool"), sample(d), sample(d, seed=2)], np.where(sample("bool"), sample(d), sample(d, seed=2))
    ),
)
for _rank in (3, 5, 6):

    def _select(d: str, rank: int = _rank) -> Any:
        c, x, y = sample("bool", (3, 1)), sample(d, (2,) * (rank - 2) + (3, 2)), sample(d, (2,), seed=2)
        return case([c, x, y], np.where(c, x, y))

    add("SELECT_V2", "broadcast rank %d" % _rank, MOVED, _select)
add(
    "SELECT_V2",
    "",
    MOVED,
    lambda d: case(
        [sample("bool"), sample(d), sample(d, seed=2)], np.where(sample("bool"), sample(d), sample(d, seed=2))
    ),
)
add(
    "WHERE",
    "",
    [*NUMBERS, "bool"],
    lambda d: case([sample(d, small=True)], np.argwhere(sample(d, small=True)).astype(np.int64)),
)
add(
    "RANGE", "", NUMBERS, lambda d: case([np.array(1, d), np.array(9, d), np.array(3, d)], np.arange(1, 9, 3).astype(d))
)
add(
    "SPACE_TO_DEPTH",
    "",
    NUMBERS,
    lambda d: case([sample(d, (1, 2, 2, 3))], sample(d, (1, 2, 2, 3)).reshape(1, 1, 1, 12), block_size=2),
)
add(
    "DEPTH_TO_SPACE",
    "",
    NUMBERS,
    lambda d: case([sample(d, (1, 1, 1, 12))], sample(d, (1, 1, 1, 12)).reshape(1, 2, 2, 3), block_size=2),
)
add(
    "SPACE_TO_BATCH_ND",
    "",
    NUMBERS,
    lambda d: case(
        [sample(d, (1, 2, 2, 1)), ints(2, 2), known(np.zeros((2, 2), np.int32))],
        sample(d, (1, 2, 2, 1)).reshape(4, 1, 1, 1),
    ),
)
add(
    "BATCH_TO_SPACE_ND",
    "",
    NUMBERS,
    lambda d: case(
        [sample(d, (4, 1, 1, 1)), ints(2, 2), known(np.zeros((2, 2), np.int32))],
        sample(d, (4, 1, 1, 1)).reshape(1, 2, 2, 1),
    ),
)
add("MATRIX_DIAG", "", NUMBERS, lambda d: case([sample(d, (3,))], np.diag(sample(d, (3,)))))
add(
    "BROADCAST_ARGS",
    "",
    ["int32", "int64"],
    lambda d: case([np.array([2, 1], d), np.array([3], d)], np.array([2, 3], d)),
)
add(
    "SEGMENT_SUM",
    "",
    NUMBERS,
    lambda d: case(
        [sample(d, (3, 2), True), np.array([0, 0, 1], np.int32)],
        np.stack([sample(d, (3, 2), True)[:2].sum(0), sample(d, (3, 2), True)[2]]).astype(d),
    ),
)
add(
    "DILATE",
    "",
    NUMBERS,
    lambda d: case(
        [positive(d, (2,)), ints(2), known(np.zeros((), d))],
        np.array([positive(d, (2,))[0], 0, positive(d, (2,))[1]], d),
    ),
)
add("BITCAST", "float32", ["float32"], lambda d: case([sample(d)], sample(d).view(np.int32)))
for _to in [*NUMBERS, "bool", "complex64"]:

    def _cast(d: str, to: str = _to) -> Any:
        x = sample(d) if to[0] != "u" or d == "bool" else positive(d)
        return case([x], x.astype(to), in_data_type=d, out_data_type=to)

    add("CAST", "to " + _to, [*NUMBERS, "bool", "complex64"], _cast)
