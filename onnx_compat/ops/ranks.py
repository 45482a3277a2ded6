"""Name the input of an operator that has a rank which the operator does not take.

The meaning of an operator is applied first: an exception that it did not foresee then has this cause. So a rank that
a meaning can compute stays accepted, and no node pays for the check.
"""

from typing import Any, Dict, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.tracing.values import Tensor

__all__ = ["TABLE", "check"]

Range = Tuple[int, Optional[int]]

#: Operator -> for each input the ranks that ONNX allows: `2`, `3-4`, `1+`; `*` is every rank.
TABLE = {
    "AffineGrid": "3 1",
    "ArgMax": "1+",
    "ArgMin": "1+",
    "Attention": "3-4 3-4 3-4 2-4 4 4 1",
    "BlackmanWindow": "0",
    "CausalConvWithState": "3 3 1 3",
    "Col2Im": "3 1 1",
    "Compress": "1+ 1",
    "Conv": "3+ 3+ 1",
    "ConvTranspose": "3+ 3+ 1",
    "CumProd": "1+ 0-1",
    "CumSum": "1+ 0-1",
    "DFT": "2+ 0 0",
    "DeformConv": "3+ 3+ 3+ 1 3+",
    "Det": "2+",
    "EyeLike": "2",
    "FlexAttention": "4 4 4",
    "GRU": "3 3 3 2 1 3",
    "GatherElements": "1+ 1+",
    "Gemm": "2 2 0-2",
    "GroupNormalization": "3+ 1 1",
    "HammingWindow": "0",
    "HannWindow": "0",
    "Hardmax": "1+",
    "If": "0",
    "InstanceNormalization": "3+ 1 1",
    "LRN": "3+",
    "LSTM": "3 3 3 2 1 3 3 2",
    "LinearAttention": "3 3 3 4 3 3",
    "Loop": "0 0",
    "MatMul": "1+ 1+",
    "MatMulInteger": "1+ 1+",
    "MelWeightMatrix": "0 0 0 0 0",
    "NonMaxSuppression": "3 3",
    "QLinearMatMul": "1+ * * 1+",
    "RNN": "3 3 3 2 1 3",
    "ReverseSequence": "2+ 1",
    "RoiAlign": "4 2 1",
    "RotaryEmbedding": "3-4 2-3 2-3 2",
    "STFT": "2-3 0 1 0",
    "Scatter": "1+ 1+ 1+",
    "ScatterElements": "1+ 1+ 1+",
    "Slice": "1+",
    "Squeeze": "1+",
    "TfIdfVectorizer": "1-2",
    "Trilu": "2+ 0",
    "Unique": "1+",
}
#: Operators of which two inputs have equal ranks.
_EQUAL = {
    "Conv": (0, 1),
    "ConvTranspose": (0, 1),
    "GatherElements": (0, 1),
    "Scatter": (0, 1),
    "ScatterElements": (0, 1),
}


def check(domain: str, operator: str, inputs: Sequence[Any]) -> None:
    """Raise InvalidModelError if an input has a rank that ONNX does not allow for the operator.

    It is also raised if two inputs that need equal ranks have different ranks. A sequence, an optional or a map in the
    place of a tensor raises it too. These are not checked: operators without an entry in `TABLE`, and inputs that are
    absent or have no entry.
    """
    if domain not in ("", "ai.onnx.preview") or operator not in TABLE:
        return
    for number, (text, value) in enumerate(zip(TABLE[operator].split(), inputs)):
        if value is None or text == "*":
            continue
        if not isinstance(value, Tensor):
            raise InvalidModelError("the input number %d is no tensor, %s takes a tensor" % (number, operator))
        least, most = _range(text)
        if value.rank < least or (most is not None and value.rank > most):
            words = text.replace("-", " to ").replace("+", " or more")
            raise InvalidModelError(
                "the input number %d has rank %d, %s takes rank %s" % (number, value.rank, operator, words)
            )
    ranks: Dict[int, int] = {k: inputs[k].rank for k in _EQUAL.get(operator, ()) if k < len(inputs)}
    if len(set(ranks.values())) > 1:
        first, second = ranks.items()
        raise InvalidModelError(
            "the inputs number %d and %d have ranks %d and %d, %s takes equal ranks"
            % (first[0], second[0], first[1], second[1], operator)
        )


def _range(text: str) -> Range:
    least, dash, most = text.rstrip("+").partition("-")
    return int(least), None if text.endswith("+") else int(most if dash else least)
