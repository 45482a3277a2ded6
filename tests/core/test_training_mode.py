"""`make_trainable`: the training mode of BatchNormalization and Dropout."""

import numpy as np
import pytest
from building import model, node, value
from onnx import TensorProto, helper
from training_models import FORMS, LOSS, classifier, classifier_batch, curve, parameters_of

from onnx_compat.errors import UnsupportedError
from onnx_compat.training import make_trainable, optimizer, prepare_training


@pytest.mark.parametrize("opset", [9, 13, 14, 17])
@pytest.mark.parametrize("form", FORMS)
def test_batch_normalization_follows_the_batch(form, opset):
    training = make_trainable(classifier(opset, normalized=True), LOSS, optimizer("sgd", 0.0), form=form)
    trainer = prepare_training(training, shim="reference")
    batch = classifier_batch()
    weights = trainer.state()
    hidden = batch["x"] @ weights["w0"] + weights["b0"]
    trainer.step(batch)
    state = trainer.state()
    np.testing.assert_allclose(state["mean"], 0.1 * hidden.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state["variance"], 0.9 + 0.1 * hidden.var(0), rtol=1e-4)
    assert trainer.evaluate(batch)["loss"] != pytest.approx(trainer.step(batch)["loss"], rel=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_a_frozen_batch_normalization_stays_in_inference_mode(form):
    training = make_trainable(classifier(normalized=True), LOSS, trainable=["w1", "b1"], form=form)
    assert sorted(parameters_of(training)) == ["b1", "w1"]
    trainer = prepare_training(training, shim="reference")
    batch = classifier_batch()
    assert trainer.evaluate(batch)["loss"] == pytest.approx(trainer.step(batch)["loss"], rel=1e-6)


def test_statistics_that_two_nodes_share_are_updated_twice():
    stored = {"s": np.ones(2, "f"), "b": np.zeros(2, "f"), "m": np.zeros(2, "f"), "v": np.ones(2, "f")}
    nodes = [node("BatchNormalization", [x, "s", "b", "m", "v"], [y]) for x, y in (("x", "h"), ("h", "y"))]
    main = model(nodes, [value("x", ["n", 2])], [value("y", ["n", 2])], stored, 15)
    x = np.array([[1, 10], [3, 30]], np.float32)
    for form in FORMS:
        trainer = prepare_training(make_trainable(main, "mse", optimizer("sgd", 0.0), form=form), shim="reference")
        trainer.step({"x": x, "labels": x})
        np.testing.assert_allclose(trainer.state()["m"], 0.9 * 0.1 * x.mean(0), rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_has_the_mask_of_the_loss(form):
    """y = dropout(x w) and the loss mean(y): the derivative of w is loss / w for the same mask only."""
    nodes = [node("Mul", ["x", "w"], ["h"]), node("Dropout", ["h", "ratio"], ["y"])]
    stored = {"w": np.array([2], np.float32), "ratio": np.float32(0.5)}
    main = model(nodes, [value("x", ["n"])], [value("y", ["n"])], stored)
    training = make_trainable(main, lambda labels, y: y, optimizer("sgd", 1.0), form=form)
    batch = {"x": np.arange(1, 9, dtype=np.float32), "labels": np.zeros(8, np.float32)}
    losses = set()
    for _ in range(4):
        (loss,), states = curve(training, batch, 1)
        assert states["w"][0] == pytest.approx(2 - loss / 2, rel=1e-5)
        losses.add(round(loss, 4))
    assert len(losses) > 1 and prepare_training(training, shim="reference").evaluate(batch)["loss"] == 9


@pytest.mark.parametrize("opset", [9, 10, 13])
def test_dropout_keeps_the_mean_at_each_opset(opset):
    inputs, attributes = (["x", "ratio"], {}) if opset >= 12 else (["x"], {"ratio": 0.25})
    main = model(
        [node("Dropout", inputs, ["h"], **attributes), node("Mul", ["h", "w"], ["y"])],
        [value("x", ["n", 1000])],
        [value("y", ["n", 1000])],
        {"w": np.ones(1000, "f"), "ratio": np.float32(0.25)},
        opset,
    )
    training = make_trainable(main, lambda labels, y: y, optimizer("sgd", 0.0))
    x = np.random.RandomState(0).rand(10, 1000).astype(np.float32)
    loss = curve(training, {"x": x, "labels": x}, 1)[0][0]
    assert abs(loss - x.mean()) > 1e-6 and loss == pytest.approx(x.mean(), abs=0.05)


def test_the_ratio_may_be_computed_and_must_be_known():
    nodes = [
        node("Mul", ["x", "w"], ["h"]),
        node("Identity", ["share"], ["ratio"]),
        node("Dropout", ["h", "ratio"], ["y"], name="drop"),
    ]
    ports, stored = [value("x", [2]), value("share", [])], {"w": np.ones(2, "f")}
    training = make_trainable(model(nodes, ports[:1], [value("y", [2])], {**stored, "share": np.float32(1)}), "mse")
    assert curve(training, {"x": np.ones(2, "f"), "labels": np.full(2, 3, "f")}, 1)[0] == [9]
    with pytest.raises(UnsupportedError, match="ratio of a Dropout must be known") as refusal:
        make_trainable(model(nodes, ports, [value("y", [2])], stored), "mse")
    assert refusal.value.node == "drop"


def test_a_dropout_in_a_branch_is_refused():
    branches = [
        helper.make_graph([node(operator, ["h"], ["r"], name=operator)], operator, [], [value("r", [2])])
        for operator in ("Dropout", "Neg")
    ]
    nodes = [
        node("Mul", ["x", "w"], ["h"]),
        node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    ports = [value("x", [2]), value("flag", [], TensorProto.BOOL)]
    with pytest.raises(UnsupportedError, match="a Dropout in a subgraph"):
        make_trainable(model(nodes, ports, [value("y", [2])], {"w": np.ones(2, "f")}), "mse")
