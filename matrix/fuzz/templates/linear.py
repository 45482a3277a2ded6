"""Templates of matrix products."""

from __future__ import annotations

from matrix.fuzz.draft import GRID
from matrix.fuzz.draw import Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Value


def weights(draw: Draw, x: Value, *shape: int) -> Value:
    """Add a new operand of this shape and of the dtype of `x`, and return it: an initializer, sometimes an input."""
    return draw.fresh([tuple(shape)] * draw.shared.worlds, x.dtype, -2, 2)


@template("MatMul", 3)
def matmul(draw: Draw) -> None:
    """Add a MatMul of a value and new weights, or sometimes of two values, which may be vectors."""
    x = draw.pick(
        ("float32", "float32", "float64", "int32"), range(1, 6), where=lambda value: value.dims[-1] is not None
    )
    inner = x.shape[-1]
    if draw.chance(0.3):
        y = draw.pick((x.dtype,), range(1, 6), where=lambda v: v.shape[-2:][0] == inner)
    else:
        columns = draw.integer(1, 4)
        lead = x.dims[0] if x.rank >= 3 and draw.chance(0.2) else None
        y = weights(draw, x, *([lead] if lead and x.rank == 3 else []), inner, columns)
    draw.node("MatMul", [x, y], GRID)


@template("Self-MatMul", 1)
def matmul_with_transpose(draw: Draw) -> None:
    """Add a MatMul of a value and its own transpose, in either order."""
    x = draw.pick(("float32",), range(2, 5))
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    transposed = draw.node("Transpose", [x], perm=order)
    draw.node("MatMul", [x, transposed] if draw.chance(0.5) else [transposed, x], GRID)


@template("Gemm", 2)
def gemm(draw: Draw) -> None:
    """Add a Gemm, sometimes with transposes, factors or a bias that broadcasts."""
    trans_a = draw.choice([0, 0, 1])
    x = draw.pick(("float32",), [2], where=lambda value: value.dims[0 if trans_a else 1] is not None)
    inner, columns = x.shape[0 if trans_a else 1], draw.integer(1, 4)
    trans_b = draw.choice([0, 1])
    inputs = [x, weights(draw, x, *((columns, inner) if trans_b else (inner, columns)))]
    if draw.chance(0.7):
        inputs.append(weights(draw, x, *draw.choice([(columns,), (1, columns), (1,), ()])))
    factors = {name: draw.choice([None, None, 0.5, 2.0, -1.0]) for name in ("alpha", "beta")}
    draw.node("Gemm", inputs, GRID, transA=trans_a or None, transB=trans_b or None, **factors)


@template("Einsum", 0.8)
def einsum(draw: Draw) -> None:
    """Add an Einsum: the product of a value and new weights, or sometimes a permutation or sum of one value."""
    rank = draw.choice([2, 3])
    x = draw.pick(("float32",), [rank], where=lambda value: value.dims[-1] is not None)
    letters = "bij"[3 - rank :]
    if draw.chance(0.3):
        output = "".join(draw.rng.sample(letters, draw.integer(1, rank)))
        draw.node("Einsum", [x], GRID, equation="%s->%s" % (letters, output))
    else:
        y = weights(draw, x, x.shape[-1], draw.integer(1, 3))
        draw.node(
            "Einsum",
            [x, y],
            GRID,
            equation="%s,jk->%s" % (letters, draw.choice([letters[:-1] + "k", "k" + letters[:-1]])),
        )
