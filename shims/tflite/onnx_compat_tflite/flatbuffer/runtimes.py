"""The oldest TFLite runtime that has each op version. Versions that are not listed exist in 2.7, the oldest in use."""

from typing import Dict, Iterable, Tuple

__all__ = ["FLOOR", "minimum_runtime"]

FLOOR = (2, 7)

_NEWER = """
ABS 5:12
ADD 5:13 6:23
ARG_MAX ARG_MIN 3:9
ATAN2 1:10
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND 4:12
BITCAST BITWISE_XOR RIGHT_SHIFT 1:13
BUCKETIZE MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM 1:8
CAST 3:8 4:9 5:12 6:15 7:17 8:21
CONCATENATION 4:14 5:21
CONV_2D 6:9 7:11 8:15
DEPTHWISE_CONV_2D 7:11
DEQUANTIZE 6:18 7:21 8:22
DILATE REDUCE_WINDOW STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_SCATTER 1:15
DYNAMIC_UPDATE_SLICE 1:9 2:17 3:19 4:20 5:21 6:22
EMBEDDING_LOOKUP 4:18 5:21
EQUAL 4:13 5:21
EXP 2:12
FILL 4:12
FLOOR_DIV 3:13
FLOOR_MOD 2:13
FULLY_CONNECTED 10:11 11:15 12:17 13:18 14:21
GATHER 6:13 7:15
GATHER_ND 4:13 5:16
GELU 1:9
GREATER_EQUAL LESS 3:13
LOG 2:15
MIRROR_PAD 3:12
MUL 6:11 7:13 8:23
NOT_EQUAL 4:21
PACK 4:13
PAD PADV2 5:20
QUANTIZE 4:21
RANGE 2:14
RELU_0_TO_1 1:10
RSQRT 3:15
SELECT 3:12
SELECT_V2 2:12
SIGN 1:11 2:12
SLICE 6:14 7:21
SQRT 2:21
STABLEHLO_ADD STABLEHLO_GATHER STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY 1:16
STABLEHLO_AND STABLEHLO_CASE STABLEHLO_CBRT STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT 1:17
STABLEHLO_PAD STABLEHLO_REDUCE_WINDOW 1:16
STRIDED_SLICE 7:14
TILE 3:8
TOPK_V2 3:13
TRANSPOSE 6:12 7:15 8:22
TRANSPOSE_CONV 4:13 5:15
UNIDIRECTIONAL_SEQUENCE_LSTM 4:12
UNPACK 5:22
UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM 1:10
UNSORTED_SEGMENT_MIN 1:11
WHERE 2:8
"""
"""Ops, then `version:minor` for each of their versions that runtime 2.minor added. Example: ABS 5 came with 2.12."""


def _parse(text: str) -> Dict[str, Dict[int, int]]:
    result: Dict[str, Dict[int, int]] = {}
    for line in text.strip().splitlines():
        words = line.split()
        steps = [word.split(":") for word in words if ":" in word]
        for name in words[: len(words) - len(steps)]:
            result[name] = {int(version): int(minor) for version, minor in steps}
    return result


_MINORS = _parse(_NEWER)


def minimum_runtime(operators: Iterable[Tuple[str, int]]) -> str:
    """Return the version of the oldest TFLite runtime that has all (op, version) pairs, such as "2.12.0".

    The result is at least "2.7.0". An op that `_NEWER` does not list requires no newer runtime. A version of a listed
    op requires the newest of the runtimes that are listed for this version and for lower versions.
    """
    minor = FLOOR[1]
    for name, version in operators:
        minors = [first_minor for step, first_minor in _MINORS.get(name, {}).items() if step <= version]
        minor = max([minor, *minors])
    return "%d.%d.0" % (FLOOR[0], minor)
