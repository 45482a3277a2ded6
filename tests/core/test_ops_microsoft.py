"""Operators of com.microsoft on floats, compared with the kernels of onnxruntime."""

from typing import Any

import numpy as np
import pytest
from against_onnxruntime import build_model, check, session

import onnx_compat
from matrix.harness.generators import per_test

RNG = per_test(np.random.default_rng(28))


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


ACTIVATIONS = [
    ("", []),
    ("Relu", []),
    ("Tanh", []),
    ("Sigmoid", []),
    ("LeakyRelu", [0.2]),
    ("Clip", [-0.5, 0.7]),
    ("HardSigmoid", [0.3, 0.4]),
    ("HardSwish", []),
]


@pytest.mark.parametrize(("name", "parameters"), ACTIVATIONS)
def test_fused_convolution(name: str, parameters: Any) -> None:
    how = {"activation": name, "activation_params": parameters} if parameters else {"activation": name} if name else {}
    inputs = [floats(2, 4, 7, 6), floats(6, 4, 3, 3), floats(6)]
    check("FusedConv", inputs, pads=[1, 1, 1, 1], **how)
    check("FusedConv", [*inputs, floats(2, 6, 7, 6)], pads=[1, 1, 1, 1], **how)
    check("FusedConv", [*inputs[:2], None, floats(2, 6, 3, 2)], strides=[2, 2], known=[1], **how)


def test_convolution_of_channels_last_images() -> None:
    """onnxruntime has no CPU kernel for it. The expected value is the channels-first convolution between two transposes."""
    x, w, z = floats(2, 7, 6, 4), floats(6, 2, 3, 3), floats(2, 7, 6, 6)
    how = {"pads": [1, 1, 1, 1], "group": 2, "activation": "Relu"}
    proto, feed = build_model("NhwcFusedConv", [x, w, None, z], unknown=True, **how)
    mine = onnx_compat.prepare(proto, shim="reference").run(feed)[0]
    first = [np.ascontiguousarray(np.moveaxis(image, -1, 1)) for image in (x, z)]
    proto, feed = build_model("FusedConv", [first[0], w, None, first[1]], **how)
    theirs = session(proto).run(None, feed)[0]
    np.testing.assert_allclose(mine, np.moveaxis(theirs, 1, -1), rtol=1e-5, atol=1e-5)


GEMM = [
    ("Relu", {}),
    ("Tanh", {}),
    ("Sigmoid", {}),
    ("Softplus", {}),
    ("Softsign", {}),
    ("LeakyRelu", {"alpha": 0.2}),
    ("Elu", {"alpha": 0.5}),
    ("Celu", {"alpha": 0.5}),
    ("ThresholdedRelu", {"alpha": 0.4}),
    ("Selu", {"alpha": 1.2, "gamma": 1.3}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("ScaledTanh", {"alpha": 0.5, "beta": 0.6}),
    ("ParametricSoftplus", {"alpha": 0.5, "beta": 0.6}),
]


@pytest.mark.parametrize(("name", "parameters"), GEMM)
def test_gemm_and_its_activation(name: str, parameters: Any) -> None:
    how = {"activation_" + key: number for key, number in parameters.items()}
    check("FusedGemm", [floats(3, 4), floats(4, 5), floats(5)], activation=name, alpha=0.7, beta=0.6, **how)
    check("FusedGemm", [floats(4, 3), floats(5, 4)], activation=name, transA=1, transB=1, known=[1], **how)


def test_a_fused_quick_gelu_has_the_default_of_the_operator() -> None:
    """onnxruntime fuses QuickGelu for GPUs only. The expected value is the operator QuickGelu without attributes."""
    x = floats(3, 4)
    proto, feed = build_model("QuickGelu", [x])
    expected = session(proto).run(None, feed)[0]
    proto, feed = build_model("FusedGemm", [x, np.eye(4, dtype=np.float32)], activation="QuickGelu")
    np.testing.assert_allclose(onnx_compat.run(proto, feed, "reference")[0], expected, rtol=1e-5, atol=1e-5)


def test_an_activation_that_is_not_known_is_named() -> None:
    proto, _ = build_model("FusedConv", [floats(1, 1, 3, 3), floats(1, 1, 1, 1)], activation="Erf")
    with pytest.raises(onnx_compat.OnnxCompatError, match="the fused activation 'Erf' is not known"):
        onnx_compat.prepare(proto, shim="reference", fallback=False)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("swapped", [0, 1])
@pytest.mark.parametrize("known", [[], [0], [1]])
def test_products_of_transposed_matrices(batch: int, swapped: int, known: Any) -> None:
    a, b = floats(2, 6, 3, 4), floats(2, 6, 4, 5)
    if swapped:
        a, b = a.swapaxes(2, 3), b.swapaxes(2, 3)
    if batch:
        a, b = np.moveaxis(a, -2, 0), np.moveaxis(b, -2, 0)
    how = {"transA": swapped, "transB": swapped, "alpha": 0.3}
    arrays = [np.ascontiguousarray(a), np.ascontiguousarray(b)]
    check("FusedMatMul", arrays, transBatchA=batch, transBatchB=batch, known=known, **how)
    if not batch:
        check("TransposeMatMul", arrays, known=known, **how)


def test_products_with_vectors() -> None:
    check("FusedMatMul", [floats(4), floats(4, 5)], transA=1, alpha=2.0)
    check("FusedMatMul", [floats(3, 4), floats(4)], transB=1, alpha=2.0)


def test_a_product_and_its_activation() -> None:
    """The expected value comes from numpy: onnxruntime has no CPU kernel for the operator."""
    a, b = floats(2, 3, 4), floats(5, 4)
    proto, feed = build_model("FusedMatMulActivation", [a, b], activation="Relu", transB=1, alpha=2.0, unknown=True)
    mine = onnx_compat.prepare(proto, shim="reference").run(feed)[0]
    np.testing.assert_allclose(mine, np.maximum(a @ b.T * 2, 0), rtol=1e-5, atol=1e-5)


def test_activations() -> None:
    x, bias = floats(3, 40) * 3, floats(40)
    check("Gelu", [x])
    check("FastGelu", [x])
    check("FastGelu", [x, bias])
    check("BiasGelu", [x, bias])
    check("QuickGelu", [x])
    check("QuickGelu", [x], alpha=-0.5)


def test_activations_without_a_kernel_here() -> None:
    x, bias, skip = floats(2, 3, 8), floats(8), floats(2, 3, 8)

    def mine(operator: str, inputs: Any, **how: Any) -> Any:
        proto, feed = build_model(operator, inputs, unknown=True, **how)
        return onnx_compat.prepare(proto, shim="reference").run(feed)

    np.testing.assert_allclose(mine("BiasAdd", [x, bias, skip])[0], x + bias + skip, rtol=1e-6)
    output, mask = (mine("BiasDropout", [x, bias, skip], outputs=2)[k] for k in (0, 1))
    np.testing.assert_allclose(output, x + bias + skip, rtol=1e-6)
    assert mask.dtype == bool
    assert mask.all()
    proto, feed = build_model("Gelu", [(x + bias)[..., 4:]])
    gate = session(proto).run(None, feed)[0]
    np.testing.assert_allclose(mine("BiasSplitGelu", [x, bias])[0], (x + bias)[..., :4] * gate, rtol=1e-5, atol=1e-6)


def test_normalizations_in_onnx_own_domain() -> None:
    check("LayerNormalization", [floats(2, 3, 4), floats(4), floats(4)], domain="", outputs=3)
    check("LayerNormalization", [floats(2, 3, 4), floats(3, 4)], domain="", axis=1, epsilon=1e-2)
    check("SimplifiedLayerNormalization", [floats(2, 3, 4), floats(4)], domain="", outputs=2)
    check("SimplifiedLayerNormalization", [floats(2, 3, 4), floats(3, 4)], domain="", axis=1, epsilon=1e-2)


@pytest.mark.parametrize("outputs", [1, 4])
def test_normalizations_of_sums(outputs: int) -> None:
    x, skip, vectors = floats(2, 3, 4), floats(2, 3, 4), [floats(4) for _ in range(3)]
    for given in (vectors[:1], vectors[:2], vectors, [vectors[0], None, vectors[2]]):
        for added in (skip, skip[0], skip[:1]):
            check("SkipLayerNormalization", [x, added, *given], epsilon=1e-3, outputs=outputs)
    for given in (vectors[:1], vectors[:2]):
        check("SkipSimplifiedLayerNormalization", [x, skip, *given], epsilon=1e-3, outputs=outputs)
        check("SkipSimplifiedLayerNormalization", [x[0], skip[0], *given], epsilon=1e-3, outputs=outputs)


def test_embeddings() -> None:
    ids, position_ids = (RNG.integers(0, most, (2, 5)).astype(np.int32) for most in (10, 6))
    segments = RNG.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    words, positions, kinds, gamma, beta = floats(10, 8), floats(6, 8), floats(2, 8), floats(8), floats(8)
    tables = [words, positions, kinds, gamma, beta]
    known = {"known": [2, 3, 4, 5, 6], "outputs": 3}
    check("EmbedLayerNormalization", [ids, segments, *tables], **known)
    check("EmbedLayerNormalization", [ids, None, words, positions, None, gamma, beta], **known)
    check("EmbedLayerNormalization", [ids, segments, *tables, mask], **known)
    check("EmbedLayerNormalization", [ids, segments, *tables, mask, position_ids], **known)
    check("EmbedLayerNormalization", [ids, segments, *tables, None, position_ids[:1]], **known)


def test_a_required_input_behind_an_optional_one_is_missed_by_name() -> None:
    proto, _ = build_model("EmbedLayerNormalization", [np.zeros((1, 2), np.int32), None, None, floats(6, 8)])
    with pytest.raises(onnx_compat.OnnxCompatError, match=r"the input 'word_embedding' .* is missing"):
        onnx_compat.prepare(proto, shim="reference", fallback=False)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_padding(mode: str) -> None:
    x = floats(3, 4)
    check("Pad", [x, np.array([1, 0, 2, 1])], mode=mode)
    check("Pad", [x, np.array([[1, 0, 2, 1]]), np.array([5], np.float32)], mode=mode, known=[1])


def test_arrays() -> None:
    check("Pad", [floats(3, 4), np.array([1, -1, 0, 1]), np.float32(3)], known=[1])
    check("Trilu", [floats(2, 3, 4)])
    check("Trilu", [floats(2, 3, 4), np.array(1)], upper=0)
    check("GatherND", [floats(3, 4, 5), np.array([[0, 1], [-1, 2]])])
    check("GatherND", [floats(3, 4, 5), np.array([[[0, 1, 2]], [[1, 2, 0]]], np.int32)])
    check("Range", [np.float32(1), np.float32(9), np.float32(1.5)])
    check("Range", [np.array([2]), np.array(9)])
    check("Range", [np.array(2, np.int16), np.array(-9, np.int16), np.array(-2, np.int16)])
    for axis in (1, -1, [-3], 2):
        check("ExpandDims", [floats(2, 3), np.array(axis, np.int32)], known=[1])
        check("ExpandDims", [floats(2, 3), np.array(axis, np.int32)])


def test_unique_elements_in_order() -> None:
    check("Unique", [np.array([2, 1, 1, 3, 4, 3, 2, -1], np.float32)], outputs=3)
    check("Unique", [RNG.integers(0, 30, 200).astype(np.float32)], outputs=3)


def test_inverse() -> None:
    check("Inverse", [floats(2, 3, 5, 5)], rtol=1e-2, atol=1e-3)
    check("Inverse", [floats(4, 4).astype(np.float64)], rtol=1e-9, atol=1e-9)
    check("Inverse", [np.array([[0, 1], [2, 0]], np.float32)])
    check("Inverse", [np.array([[[4]]], np.float32)])


@pytest.mark.parametrize("unknown", [False, True])
def test_fourier_transforms(unknown: bool) -> None:
    """The expected value comes from numpy: onnxruntime has no CPU kernel for the operators."""
    x = floats(2, 3, 8)
    proto, feed = build_model("Rfft", [x], unknown=unknown, signal_ndim=1)
    parts = onnx_compat.prepare(proto, shim="reference").run(feed)[0]
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(parts, np.stack([expected.real, expected.imag], -1), rtol=1e-5, atol=1e-5)
    proto, feed = build_model("Irfft", [parts], unknown=unknown, signal_ndim=1)
    np.testing.assert_allclose(onnx_compat.prepare(proto, shim="reference").run(feed)[0], x, rtol=1e-5, atol=1e-5)
