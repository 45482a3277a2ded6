"""Operators refuse attributes and inputs that the specification does not allow, and name the value that is wrong."""

from typing import Any, Dict, Sequence, Type

import numpy as np
import pytest
from meanings import meaning

from onnx_compat.errors import InvalidModelError, OnnxCompatError, UnsupportedError
from onnx_compat.ir.dtypes import float32
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, lift

TRAINING = "ai.onnx.preview.training"


def unit_tensor(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


STEPS, HEADS = unit_tensor(1, 2, 4), unit_tensor(1, 1, 2, 4)
IMAGE = unit_tensor(1, 1, 2, 2)
WORDS = np.array(["a"], object)
ONE_HEAD = {"q_num_heads": 1, "kv_num_heads": 1}
TWICE = np.float32([1, 1, 2, 2])
STATE = [np.array(0.1, np.float32), np.array(1)]  # the learning rate and the step of an optimizer

Case = Sequence[Any]  # operator, opset, inputs, attributes, text of the error

INVALID: Sequence[Case] = [
    ("Gelu", 20, [unit_tensor(1)], {"approximate": "tan"}, "'none' or 'tanh', not 'tan'"),
    (
        "Conv",
        11,
        [unit_tensor(1, 1, 4), unit_tensor(1, 1, 2)],
        {"auto_pad": "SAME"},
        "auto_pad is NOTSET, SAME_UPPER.*not 'SAME'",
    ),
    ("Conv", 11, [unit_tensor(1, 1, 4), unit_tensor(1, 1, 2)], {"pads": [1]}, r"the padding \[1\] must have 2 entries"),
    *(
        ("Attention", opset, [HEADS] * 3, {"qk_matmul_output_mode": mode}, "is 0, 1, 2 or 3, not %d" % mode)
        for opset, mode in ((23, -1), (24, 4), (25, -4))
    ),
    ("Attention", 23, [STEPS] * 3, {}, "rank 3 needs q_num_heads and kv_num_heads"),
    ("Attention", 23, [STEPS] * 3, {"q_num_heads": 3, "kv_num_heads": 3}, "size 4 cannot be divided among 3 heads"),
    (
        "Attention",
        24,
        [*[HEADS] * 3, None, HEADS],
        {},
        "past_key and past_value must both be present or both be absent",
    ),
    (
        "Attention",
        24,
        [*[HEADS] * 3, None, HEADS, HEADS, integers(2)],
        {},
        "nonpad_kv_seqlen and past_key exclude each other",
    ),
    ("BitShift", 11, [np.uint8([1])] * 2, {"direction": "UP"}, "LEFT or RIGHT, not 'UP'"),
    ("BitCast", 26, [unit_tensor(2)], {"to": 7}, "the bits of float32 are not those of int64: the widths differ"),
    (
        "TensorScatter",
        24,
        [unit_tensor(1, 4, 2), unit_tensor(1, 1, 2)],
        {"mode": "square"},
        "'linear' or 'circular', not 'square'",
    ),
    (
        "TensorScatter",
        24,
        [unit_tensor(1, 4, 2), unit_tensor(1, 1, 2)],
        {"axis": 0},
        "axis of a TensorScatter is 0, which is the batch",
    ),
    ("LinearAttention", 27, [STEPS] * 3, dict(ONE_HEAD, update_rule="cubic"), "'cubic' is none of delta, gated"),
    ("LinearAttention", 27, [STEPS] * 3, dict(ONE_HEAD, update_rule="gated"), "'gated' needs 'decay'"),
    (
        "LinearAttention",
        27,
        [*[STEPS] * 3, None, None, unit_tensor(1, 2, 1)],
        dict(ONE_HEAD, update_rule="linear"),
        "'linear' takes no 'beta'",
    ),
    (
        "CausalConvWithState",
        27,
        [unit_tensor(1, 2, 4), unit_tensor(2, 1, 2)],
        {"activation": "relu"},
        "'relu' is none of none, silu",
    ),
    (
        "NegativeLogLikelihoodLoss",
        13,
        [unit_tensor(1, 2), integers(0)],
        {"reduction": "max"},
        "none, sum or mean, not 'max'",
    ),
    (
        "SoftmaxCrossEntropyLoss",
        13,
        [unit_tensor(1, 2), integers(0)],
        {"reduction": "max"},
        "none, sum or mean, not 'max'",
    ),
    ("RotaryEmbedding", 23, [STEPS, unit_tensor(1, 2, 2), unit_tensor(1, 2, 2)], {}, "rank 3 needs num_heads"),
    ("Einsum", 12, [unit_tensor(2, 2)], {"equation": "ij,jk->ik"}, "'ij,jk->ik' has 2 terms for 1 inputs"),
    ("Einsum", 12, [unit_tensor(2, 2)], {"equation": "ijk->k"}, "the term 'ijk' of an equation does not fit.*rank 2"),
    ("Einsum", 12, [unit_tensor(2, 2)], {"equation": "i...jk->k"}, r"the term 'i\.\.\.jk' of an equation does not fit"),
    ("Einsum", 12, [unit_tensor(2, 2)], {"equation": "ij->ik"}, "the output of.*has 'k', which no term has"),
    ("Einsum", 12, [unit_tensor(2, 2)], {"equation": "ij->i->j"}, "the output of.*which no term has"),
    ("Einsum", 12, [unit_tensor(2, 2)], {"equation": "ij->ii"}, "the output of.*has a letter twice"),
    ("DepthToSpace", 11, [unit_tensor(1, 4, 1, 1)], {"blocksize": 2, "mode": "RCD"}, "DCR or CRD, not 'RCD'"),
    ("SpaceToDepth", 28, [IMAGE], {"blocksize": 2, "mode": ""}, "DCR or CRD, not ''"),
    ("Mod", 13, [integers(2)] * 2, {"fmod": 2}, "fmod is 0 or 1, not 2"),
    ("Mod", 28, [unit_tensor(2)] * 2, {"fmod": -1}, "fmod is 0 or 1, not -1"),
    ("Dropout", 6, [None, IMAGE], {"ratio": 1.5}, "the ratio of a Dropout is 1.5; it must be from 0 to 1"),
    *(
        ("Dropout", 13, [None, IMAGE, np.array(ratio, np.float32), np.array(mode)], {}, "it must be from 0 to 1")
        for ratio, mode in ((1.5, True), (-0.5, False), (np.nan, True))
    ),
    ("SequenceErase", 11, [SequenceValue(float32, ())], {}, "the sequence is empty: no element can be erased"),
    ("ConcatFromSequence", 11, [SequenceValue(float32, ())], {"axis": 0}, "the sequence is empty"),
    ("ConcatFromSequence", 11, [SequenceValue(float32, ())], {"axis": 0, "new_axis": 1}, "the sequence is empty"),
    ("Resize", 19, [IMAGE, None, unit_tensor(3)], {}, "3 scales were given for 4 axes"),
    ("Resize", 19, [IMAGE, None, TWICE], {"mode": "best"}, "nearest, linear or cubic, not 'best'"),
    ("Resize", 19, [IMAGE, None, TWICE], {"nearest_mode": "best"}, "there is no nearest_mode 'best'"),
    (
        "Resize",
        19,
        [IMAGE, None, None, integers(1, 1, 4, 4)],
        {"keep_aspect_ratio_policy": "wide"},
        "keep_aspect_ratio_policy is stretch, not_larger or not_smaller, not 'wide'",
    ),
    (
        "Resize",
        19,
        [IMAGE, None, TWICE],
        {"mode": "linear", "coordinate_transformation_mode": "best"},
        "there is no coordinate_transformation_mode 'best'",
    ),
    (
        "Resize",
        19,
        [IMAGE, None, TWICE],
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
        "tf_crop_and_resize needs a roi",
    ),
    ("Expand", 13, [unit_tensor(3), integers(2)], {}, "an axis of size 3 cannot be expanded to 2"),
    ("StringNormalizer", 10, [WORDS], {"case_change_action": "TITLE"}, "LOWER, UPPER or NONE, not 'TITLE'"),
    (
        "SplitToSequence",
        11,
        [unit_tensor(4), np.array(0)],
        {},
        "the pieces of a SplitToSequence is 0; it must be 1 or more",
    ),
    ("OptionalGetElement", 18, [EMPTY_OPTIONAL], {}, "the optional is empty: it has no element"),
    ("Constant", 13, [], {}, "exactly one value, not 0"),
    ("Constant", 13, [], {"value_int": 1, "value_float": 2.0}, "exactly one value, not 2"),
    ("Range", 11, [np.array(0), np.array(3), np.array(0)], {}, "a range has the step 0"),
    ("Add", 13, [unit_tensor(1), integers(1)], {}, "add of float32 and int64: both must have one dtype"),
    (
        "MatMul",
        13,
        [unit_tensor(2, 2), np.ones((2, 2), np.int64)],
        {},
        "matmul of float32 and int64: both must have one dtype",
    ),
    ("Sin", 7, [integers(1)], {}, "sin is not defined for int64"),
    ("Cast", 13, [WORDS], {"to": 14}, "text cannot be converted to complex64"),
    (
        "RNN",
        14,
        [unit_tensor(1, 1, 1)] * 3,
        {"hidden_size": 1, "activations": ["Cube"]},
        "there is no activation 'Cube'",
    ),
]

PREVIEW: Sequence[Case] = [
    (
        "Momentum",
        1,
        [*STATE, *[unit_tensor(2)] * 3],
        {"alpha": 0.1, "beta": 0.1, "mode": "fast", "norm_coefficient": 0.1},
        "the mode of a Momentum is standard or nesterov, not 'fast'",
    ),
    ("Adagrad", 1, [*STATE, *[unit_tensor(2)] * 2], {}, "3 values for each tensor, and has 2 in total"),
    ("Adam", 1, STATE, {}, "4 values for each tensor, and has 0 in total"),
]

NEAREST_ROWS = {"coefficients": [1.0, 1.0], "support_vectors": [1.0, 2.0, 3.0, 4.0], "vectors_per_class": [1, 1]}

ML: Sequence[Case] = [
    ("LinearRegressor", 1, [unit_tensor(1, 1, 2)], {"coefficients": [1.0, 2.0]}, r"a tensor of rank 2 \(or 1\), not 3"),
    (
        "LinearRegressor",
        1,
        [unit_tensor(1, 2)],
        {"coefficients": [1.0, 2.0], "targets": 3},
        "2 coefficients.*among 3 classes",
    ),
    (
        "LinearRegressor",
        1,
        [unit_tensor(1, 4)],
        {"coefficients": [1.0] * 8, "targets": 2, "post_transform": "TANH"},
        "post_transform is one of NONE.*not 'TANH'",
    ),
    (
        "LinearClassifier",
        1,
        [unit_tensor(1, 2)],
        {"coefficients": [1.0] * 4, "intercepts": [0.0, 0.0]},
        "needs the labels of its classes",
    ),
    *(
        ("LinearClassifier", 1, [unit_tensor(1, 0)], dict(labels, coefficients=[1.0]), "rows without features")
        for labels in ({}, {"classlabels_ints": [0, 1]})
    ),
    *(
        ("CastMap", 1, [MapValue(lift(integers(0)), lift(np.array([text], object)))], {"cast_to": "TO_INT64"}, "int64")
        for text in ("1e999", "-1e30", "9999999999999999999999")
    ),
    (
        "FeatureVectorizer",
        1,
        [unit_tensor(1, 2)],
        {"inputdimensions": [1, 1]},
        "inputdimensions has 2 entries for 1 inputs",
    ),
    ("Imputer", 1, [unit_tensor(1, 2)], {}, "no imputed values for float32"),
    ("OneHotEncoder", 1, [unit_tensor(1, 2)], {}, "a OneHotEncoder needs its categories"),
    ("LabelEncoder", 2, [WORDS], {"keys_strings": ["a"], "values_int64s": [1, 2]}, "1 keys and 2 values"),
    ("LabelEncoder", 2, [WORDS], {"keys_int64s": [1], "values_int64s": [1]}, "the keys are int64, not string"),
    ("LabelEncoder", 2, [WORDS], {"values_int64s": [1]}, "needs its keys and its values"),
    ("ZipMap", 1, [unit_tensor(1, 0)], {}, "a ZipMap needs the labels of its classes"),
    ("ZipMap", 1, [unit_tensor(1, 2)], {"classlabels_int64s": [1]}, "2 scores for 1 labels"),
    (
        "SVMRegressor",
        1,
        [unit_tensor(1, 2)],
        {"kernel_type": "CUBE", "coefficients": [1.0], "support_vectors": [1.0, 2.0], "n_supports": 1, "rho": [0.0]},
        "LINEAR, POLY, RBF or SIGMOID, not 'CUBE'",
    ),
    ("SVMClassifier", 1, [unit_tensor(1, 2)], dict(NEAREST_ROWS, rho=[0.0]), "an SVMClassifier needs the labels"),
    (
        "SVMClassifier",
        1,
        [unit_tensor(1, 2)],
        dict(NEAREST_ROWS, classlabels_ints=[0, 1], rho=[]),
        "rho has 0 entries for 1 pairs of classes",
    ),
]

NBITS = {"K": 4, "N": 1, "block_size": 16}
PACKED = [unit_tensor(1, 4), np.ones((1, 1, 2), np.uint8), unit_tensor(1)]
GROUPED = [STEPS, STEPS, STEPS, None, None, np.array([1]), np.array(2)]
GROUPS = {"num_heads": 1, "kv_num_heads": 1}
MASK = np.ones((1, 1, 1, 1, 1), np.int32)

MICROSOFT: Sequence[Case] = [
    ("MultiHeadAttention", 1, [STEPS, STEPS], {"num_heads": 1}, "the input 'key' is present and 'value' is missing"),
    (
        "MultiHeadAttention",
        1,
        [STEPS, STEPS, STEPS, None, None, None, HEADS, HEADS, np.array([9])],
        {"num_heads": 1},
        "steps cannot hold",
    ),
    (
        "DecoderMaskedMultiHeadAttention",
        1,
        [STEPS, STEPS, STEPS, None, None, HEADS, HEADS],
        {"num_heads": 1, "past_present_share_buffer": 1},
        "past_present_share_buffer needs past_sequence_length",
    ),
    *(
        (
            "GatherBlockQuantized",
            1,
            [np.ones((2, 16, 16), np.uint8), integers(0), unit_tensor(1)],
            axes,
            "must be the axes 0 and 2",
        )
        for axes in (
            {"gather_axis": 1, "quantize_axis": 2},
            {"gather_axis": 2, "quantize_axis": 1, "bits": 8},
            {"gather_axis": -1, "quantize_axis": -1},
            {"gather_axis": 0, "quantize_axis": 1},
        )
    ),
    *(
        (
            "FusedConv",
            1,
            [IMAGE, IMAGE],
            {"activation": name, "activation_params": params},
            "has %d entries" % len(params),
        )
        for name, params in (("Clip", [0.1]), ("LeakyRelu", [0.1, 0.2]), ("Relu", [0.1]))
    ),
    *(
        (
            "FusedGemm",
            1,
            [unit_tensor(1, 2), unit_tensor(2, 1)],
            dict(given, activation=name),
            "needs the parameter %s" % text,
        )
        for name in ("ScaledTanh", "ParametricSoftplus")
        for given, text in (
            ({}, "alpha and beta"),
            ({"activation_alpha": 0.5}, "beta"),
            ({"activation_beta": 0.5}, "alpha"),
        )
    ),
    ("GroupQueryAttention", 1, GROUPED[:5], GROUPS, "needs seqlens_k and total_sequence_length"),
    ("GroupQueryAttention", 1, GROUPED, dict(GROUPS, do_rotary=1), "do_rotary needs cos_cache and sin_cache"),
]

UNSUPPORTED: Sequence[Case] = [
    ("Rfft", 1, [unit_tensor(2, 4)], {"signal_ndim": 2, "onesided": 1, "normalized": 0}, "for one axis, one-sided"),
    (
        "MultiHeadAttention",
        1,
        [STEPS] * 3 + [None] * 6 + [np.zeros((1, 2, 1), np.int32)],
        {"num_heads": 1},
        "several beams",
    ),
    ("MultiHeadAttention", 1, [*[STEPS] * 3, None, MASK], {"num_heads": 1}, "a mask of rank 5 is not supported"),
    ("DecoderMaskedMultiHeadAttention", 1, [STEPS] * 3 + [None] * 6 + [np.array(1)], {"num_heads": 1}, "several beams"),
    ("MatMulNBits", 1, PACKED, dict(NBITS, weight_prepacked=1), "weights packed for a GPU cannot be read"),
    ("MatMulNBits", 1, PACKED, dict(NBITS, bits=3), "weights of 3 bits are not supported"),
    ("GroupQueryAttention", 1, GROUPED, dict(GROUPS, sliding_window_cache=1), "sliding_window_cache is not supported"),
    *(
        (
            "GroupQueryAttention",
            1,
            [*GROUPED, *[None] * 7, *norms],
            GROUPS,
            "q_norm_weight, k_norm_weight or.*not supported",
        )
        for norms in ([unit_tensor(4)], [None, unit_tensor(4)], [unit_tensor(4)] * 2)
    ),
    (
        "GroupQueryAttention",
        1,
        [*GROUPED, *[None] * 5, unit_tensor(1)],
        GROUPS,
        "with a quantized cache is not supported",
    ),
]


def check_refused(case: Case, error_type: Type[OnnxCompatError], domain: str = "") -> None:
    name, opset, inputs, attributes, text = case
    with pytest.raises(error_type, match=text) as error:
        meaning(name, opset, domain)(*inputs, **attributes)
    assert type(error.value) is error_type


def describe(case: Any) -> str:
    return "%s: %s" % (case[0], case[4][:30])


@pytest.mark.parametrize("case", INVALID, ids=describe)
def test_an_invalid_argument_of_a_standard_operator(case: Case) -> None:
    check_refused(case, InvalidModelError)


@pytest.mark.parametrize("case", PREVIEW, ids=describe)
def test_an_invalid_argument_of_an_optimizer(case: Case) -> None:
    check_refused(case, InvalidModelError, TRAINING)


@pytest.mark.parametrize("case", ML, ids=describe)
def test_an_invalid_argument_of_a_classical_model(case: Case) -> None:
    check_refused(case, InvalidModelError, "ai.onnx.ml")


@pytest.mark.parametrize("case", MICROSOFT, ids=describe)
def test_an_invalid_argument_of_an_operator_of_onnxruntime(case: Case) -> None:
    check_refused(case, InvalidModelError, "com.microsoft")


@pytest.mark.parametrize("case", UNSUPPORTED, ids=describe)
def test_an_unsupported_argument_of_an_operator_of_onnxruntime(case: Case) -> None:
    check_refused(case, UnsupportedError, "com.microsoft")


@pytest.mark.parametrize("option", ["do_rotary", "past_present_share_buffer"])
def test_an_attention_that_onnxruntime_supports_on_gpus_only(option: str) -> None:
    attributes: Dict[str, Any] = {"num_heads": 1, option: 1}
    with pytest.raises(UnsupportedError, match="supported by onnxruntime on GPUs only"):
        meaning("Attention", 1, "com.microsoft")(None, STEPS, unit_tensor(4, 12), **attributes)


def test_the_parts_of_a_wide_complex_number_are_not_compared() -> None:
    with pytest.raises(UnsupportedError, match="Unique of complex128 is not supported") as error:
        meaning("Unique", 28)(np.ones(2, np.complex128))
    assert error.value.hint == "make it complex64, or split its parts"
