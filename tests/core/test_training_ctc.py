"""The CTC loss: labels that do not fit, the loop and the unrolled form, masked classes."""

import numpy as np
import pytest
from ctc_alignments import alignments

from matrix.harness.functions import run_function, run_with_derivative
from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.tracing.values import lift
from onnx_compat.training import structure_losses
from onnx_compat.training.losses import LOSSES, scalar_loss

RANDOM = per_test(np.random.RandomState(2))


def test_ctc_of_labels_that_do_not_fit():
    labels = np.array([[1, 1, 1], [1, 2, 0], [0, 0, 0], [3, 0, 0], [-1, 0, 0]])
    logits = RANDOM.standard_normal((5, 4, 3))
    got, derivative = run_with_derivative(lambda y, x: scalar_loss("ctc", y, x, reduction="none"), [labels, logits], 1)
    assert np.isinf(got[0])
    assert np.isnan(got[3:]).all()
    np.testing.assert_allclose(got[1:3], [alignments(*pair) for pair in zip(labels[1:3], logits[1:3])])
    assert np.isfinite(derivative).all()
    assert not derivative[0].any()


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_ctc_as_a_loop_is_the_unrolled_one(is_symbolic, monkeypatch):
    labels, logits = np.array([[1, 2, 2, 0], [3, 1, 0, 0]]), RANDOM.standard_normal((2, 9, 4))
    (unrolled,) = run_function(LOSSES["ctc"], [labels, logits])
    monkeypatch.setattr(structure_losses, "_UNROLLED_STEPS", 8)
    (looped,) = run_function(LOSSES["ctc"], [labels, logits], is_symbolic=is_symbolic)
    np.testing.assert_allclose(looped, unrolled)


def test_ctc_of_a_symbolic_number_of_steps():
    labels, logits = np.array([[1, 2, 2, 0], [3, 1, 0, 0]]), RANDOM.standard_normal((9, 2, 4))
    (looped,) = run_function(
        lambda x: LOSSES["ctc"](lift(labels), p.transpose(x, [1, 0, 2])), [logits], is_symbolic=True
    )
    (unrolled,) = run_function(LOSSES["ctc"], [labels, logits.transpose(1, 0, 2)])
    np.testing.assert_allclose(looped, unrolled)


def test_ctc_masks_classes_by_infinite_logits():
    logits = RANDOM.standard_normal((1, 4, 3))
    logits[..., 2] = -np.inf
    got, derivative = run_with_derivative(lambda y, x: scalar_loss("ctc", y, x), [np.array([[1, 1]]), logits], 1)
    assert got == pytest.approx(alignments([1, 1], logits[0, :, :2]))
    assert np.isfinite(derivative).all()
