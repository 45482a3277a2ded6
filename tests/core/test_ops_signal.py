"""DFT, STFT, windows, determinants and cumulative products: cases that onnx has not recorded.

Sizes are static and symbolic.
"""

import numpy as np
import pytest
from meanings import apply_operator, meaning, record_function

from onnx_compat.errors import InvalidModelError


def _parts(z):
    return np.stack([z.real, z.imag], -1)


def _signal(*shape):
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32)


def _int(value):
    return np.asarray(value, np.int64)


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("length", [None, 3, 6, 9])
@pytest.mark.parametrize("size", [1, 5, 6])
def test_dft_of_any_length_is_that_of_numpy(size, length, unknown):
    """For a symbolic length, cosines and sines are computed at run time."""
    x = _signal(2, size, 3, 2)
    z = x[..., 0] + 1j * x[..., 1]
    shape = [None, None, None, 2] if unknown else list(x.shape)
    given = None if length is None else _int(length)
    for inverse, theirs in ((0, np.fft.fft), (1, np.fft.ifft)):
        ours = record_function(
            lambda t, inverse=inverse: meaning("DFT", 20)(t, given, _int(-3), inverse=inverse), shape
        )
        np.testing.assert_allclose(ours(x), _parts(theirs(z, length, 1)), 1e-5, 1e-5)
    real = record_function(lambda t: meaning("DFT", 17)(t, given, axis=1, onesided=1), [*shape[:3], 1])
    np.testing.assert_allclose(real(x[..., :1]), _parts(np.fft.rfft(x[..., 0], length, 1)), 1e-5, 1e-5)
    if length or size > 1:
        back = record_function(lambda t: meaning("DFT", 20)(t, given, _int(1), onesided=1, inverse=1), shape)
        np.testing.assert_allclose(back(x)[..., 0], np.fft.irfft(z, length, 1), 1e-5, 1e-5)


def test_imaginary_parts_of_symmetric_signals_are_zero():
    """This also holds for a symbolic length, for which cosines and sines are computed at run time."""
    result = record_function(meaning("DFT", 20), [None, None, 1])(np.arange(16, dtype=np.float32).reshape(1, 16, 1))
    np.testing.assert_array_equal(result[0, [0, 8], 1], [0, 0])


@pytest.mark.parametrize("length", [2500, 4098])
def test_a_long_transform_has_two_factors(length):
    x = _signal(2, 2600, 2)
    z = x[..., 0] + 1j * x[..., 1]
    for inverse, theirs in ((0, np.fft.fft), (1, np.fft.ifft)):
        ours = record_function(
            lambda t, inverse=inverse: meaning("DFT", 17)(t, _int(length), inverse=inverse), [None, None, 2]
        )
        np.testing.assert_allclose(ours(x), _parts(theirs(z, length)), 1e-3, 1e-3 if not inverse else 1e-6)
    real = record_function(lambda t: meaning("DFT", 17)(t, _int(length), onesided=1), [None, None, 1])
    np.testing.assert_allclose(real(x[..., :1]), _parts(np.fft.rfft(x[..., 0], length)), 1e-3, 1e-3)
    back = record_function(lambda t: meaning("DFT", 17)(t, _int(length), onesided=1, inverse=1), [None, None, 2])
    np.testing.assert_allclose(back(x)[..., 0], np.fft.irfft(z, length), 1e-3, 1e-6)
    assert max(node.args[1].array.size for node in real.program.region.live() if node.primitive == "matmul") < 2e6


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dft_keeps_its_dtype(dtype):
    x = _signal(1, 8, 1).astype(dtype)
    result = record_function(meaning("DFT", 20), x.shape, dtype=dtype)(x)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, _parts(np.fft.fft(x[..., 0])), atol=1e-2 if dtype == "float16" else 1e-12)


def test_the_axis_of_complex_parts_is_refused():
    with pytest.raises(InvalidModelError, match="must be another axis"):
        apply_operator("DFT", 17, _signal(1, 4, 2), axis=2)


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize(("parts", "onesided"), [(1, 0), (1, 1), (2, 0)])
def test_stft_is_the_dft_of_frames(parts, onesided, unknown):
    x, window = _signal(2, 21, parts), np.hanning(6).astype(np.float32)
    z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    frames = np.stack([z[:, k : k + 6] for k in range(0, 16, 4)], 1)
    expected = np.fft.fft(frames * window)[..., : 4 if onesided else 6]
    shape = [None, None, parts] if unknown else list(x.shape)
    under = record_function(lambda t, w: meaning("STFT", 17)(t, _int(4), w, onesided=onesided), shape, [6])
    np.testing.assert_allclose(under(x, window), _parts(expected), 1e-5, 1e-5)
    plain = record_function(lambda t: meaning("STFT", 17)(t, _int(4), None, _int(6), onesided=onesided), shape)
    expected = np.fft.fft(frames)[..., : 4 if onesided else 6]
    np.testing.assert_allclose(plain(x), _parts(expected), 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_of_a_run_time_size(name):
    for periodic in (0, 1):
        ours = record_function(lambda n, periodic=periodic: meaning(name, 17)(n, periodic=periodic), [], dtype="int64")
        assert ours(_int(9)).dtype == np.float32
        np.testing.assert_allclose(ours(_int(9)), apply_operator(name, 17, _int(9), periodic=periodic), 1e-6, 1e-6)
    np.testing.assert_array_equal(apply_operator(name, 17, _int(4), output_datatype=6)[2], np.int32(1))


def test_mel_weights_are_triangles_of_height_one():
    hertz = [np.float32(20), np.float32(7600)]
    result = apply_operator("MelWeightMatrix", 17, _int(10), _int(512), _int(16000), *map(np.asarray, hertz))
    assert result.shape == (257, 10)
    np.testing.assert_array_equal(result.max(0), np.ones(10))
    peaks = result.argmax(0)
    assert (np.diff(peaks) > 0).all()
    for band in range(1, 9):  # each ends where the next but one begins
        assert not result[: peaks[band - 1], band].any()
        assert not result[peaks[band + 1] :, band].any()


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (2, 3, 1, 1), (0, 2, 2), (2, 0, 0)])
def test_determinants(shape):
    x = _signal(*shape).astype(np.float64)
    for sizes in (shape, [None] * len(shape)):
        result = record_function(meaning("Det", 22), sizes, dtype="float64")(x)
        np.testing.assert_allclose(result, np.linalg.det(x), 1e-12)


def test_determinants_of_singular_and_of_permuted_matrices():
    matrices = np.asarray([[[1, 2], [2, 4]], [[0, 1], [1, 0]], [[0, 0], [0, 3]]], np.float32)
    np.testing.assert_array_equal(record_function(meaning("Det", 11), matrices.shape)(matrices), [0, -1, 0])


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumprod_of_an_unknown_length(reverse, exclusive):
    x = np.asarray([[2, 3], [-1, 5], [7, 2]], np.int32)
    flipped = x[::-1] if reverse else x
    expected = np.cumprod(
        np.concatenate([np.ones((1, 2), np.int32), flipped[:-1]]) if exclusive else flipped, 0, np.int32
    )
    ours = record_function(
        lambda t: meaning("CumProd", 26)(t, _int(-2), exclusive=exclusive, reverse=reverse), [None, 2], dtype="int32"
    )
    np.testing.assert_array_equal(ours(x), expected[::-1] if reverse else expected)
    assert apply_operator("CumProd", 26, np.zeros((2, 0), np.int32), _int(1)).shape == (2, 0)
