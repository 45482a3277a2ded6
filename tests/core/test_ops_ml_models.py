"""Linear models and support vector machines of ai.onnx.ml, compared with onnxruntime."""

import numpy as np
import pytest
from ml import agree
from onnx import TensorProto

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def labels(names, classes, text):
    return {names + "_strings": list("pqrs")[:classes]} if text else {names + "_ints": [7, 5, 6, 9][:classes]}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_a_linear_classifier(transform, classes, dtype):
    random = np.random.RandomState(classes)
    x = (random.randn(6, 3) * (0.3 if np.dtype(dtype).kind == "f" else 3)).astype(dtype)
    if transform == "PROBIT":  # of probabilities; a number outside [0, 1] gives NaN
        if classes == 1:
            transform = "NONE"  # onnxruntime leaves one of both scores unwritten
        x, scale = np.abs(x), 0.02
    else:
        scale = 1.0
    for text in (False, True):
        for count in {2 if classes == 1 else classes}:
            coefficients = random.randn(classes * 3)
            coefficients = (np.abs(coefficients) if scale != 1 else coefficients) * scale
            agree(
                "LinearClassifier", 1, [x], [STRING if text else INT64, FLOAT], coefficients=coefficients.tolist(),
                intercepts=(0.3 * random.rand(classes)).tolist(), post_transform=transform,
                **labels("classlabels", count, text),
            )  # fmt: skip


def test_a_linear_classifier_without_labels():
    x = np.random.RandomState(0).randn(9, 2).astype(np.float32)
    agree("LinearClassifier", 1, [x], [INT64, FLOAT], coefficients=[1.0, -1.0], intercepts=[0.1])


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_a_linear_regressor(transform, targets):
    random = np.random.RandomState(targets)
    x = (0.3 * random.rand(6, 3)).astype(np.float32)
    how = {"coefficients": random.rand(targets * 3).tolist(), "targets": targets, "post_transform": transform}
    agree("LinearRegressor", 1, [x], [FLOAT], **how)
    agree("LinearRegressor", 1, [x], [FLOAT], intercepts=(0.05 * random.rand(targets)).tolist(), **how)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_an_svm_regressor(kernel, one_class, transform):
    random = np.random.RandomState(4)
    x = random.rand(7, 3).astype(np.float32)
    how = {"one_class": one_class, "rho": [0.1], "kernel_type": kernel, "kernel_params": [0.5, 0.1, 2.0]}
    how["post_transform"] = transform
    vectors = {"n_supports": 4, "support_vectors": random.randn(12).tolist()}
    agree("SVMRegressor", 1, [x], [FLOAT], coefficients=random.randn(4).tolist(), **vectors, **how)
    agree("SVMRegressor", 1, [x], [FLOAT], coefficients=random.randn(3).tolist(), **how)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("probable", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
def test_an_svm_classifier(kernel, classes, probable, transform):
    random = np.random.RandomState(classes)
    counts = [2, 3, 1, 2][:classes]
    total, pairs = sum(counts), classes * (classes - 1) // 2
    for text in (False, True):
        for positive in (False, True):
            weights = random.randn((classes - 1) * total)
            how = {
                "kernel_type": kernel,
                "kernel_params": [0.5, 0.1, 2.0],
                "post_transform": transform,
                "rho": (0.3 * random.randn(pairs)).tolist(),
                "coefficients": (np.abs(weights) if positive else weights).tolist(),
                "support_vectors": random.randn(total * 3).tolist(),
                "vectors_per_class": counts,
            }
            if probable:
                how.update(prob_a=random.randn(pairs).tolist(), prob_b=random.randn(pairs).tolist())
            x = random.randn(8, 3).astype(np.float32)
            agree(
                "SVMClassifier",
                1,
                [x],
                [STRING if text else INT64, FLOAT],
                **how,
                **labels("classlabels", classes, text),
            )


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
def test_a_linear_svm(classes, transform):
    random = np.random.RandomState(classes)
    for text in (False, True):
        for positive in (False, True):
            for rho in (1, classes):
                weights = random.randn(classes * 3)
                agree(
                    "SVMClassifier", 1, [random.randn(8, 3).astype(np.float32)], [STRING if text else INT64, FLOAT],
                    coefficients=(np.abs(weights) if positive else weights).tolist(),
                    rho=(0.3 * random.randn(rho)).tolist(), kernel_params=[1.0, 1.0, 1.0], post_transform=transform,
                    **labels("classlabels", classes, text),
                )  # fmt: skip
