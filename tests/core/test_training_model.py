"""`make_trainable`: the parameters, the losses and the two forms of the step."""

import numpy as np
import onnx
import pytest
from building import FLOAT, INT64, model, node, require_opset, value
from onnx import TensorProto, helper
from training_models import FORMS, LOSS, classifier, classifier_batch, curve, parameters_of

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import InputError, InvalidModelError, UnsupportedError
from onnx_compat.training import make_trainable, optimizer, prepare_training, scalar_loss

# -- the step ----------------------------------------------------------------------------------------------------------
OPTIMIZERS = ("sgd", "nesterov", "adamw", "adafactor", "nadam", "ftrl")


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_both_forms_have_the_same_curve_and_lower_the_loss(name, normalized):
    batch, runs = classifier_batch(), []
    for form in FORMS:
        training = make_trainable(classifier(normalized=normalized), LOSS, optimizer(name, 0.05), form=form)
        onnx.checker.check_model(training)
        runs.append(curve(training, batch, 12))
    (losses, states), (other_losses, other_states) = runs
    assert losses == pytest.approx(other_losses, rel=1e-5) and losses[-1] < losses[0]
    assert states.keys() == other_states.keys()
    for key, array in states.items():
        np.testing.assert_allclose(array, other_states[key], rtol=1e-4, atol=1e-6, err_msg=key)


OPTIONS = {
    "accumulate": {"accumulate": 3},
    "clip": {"global_clip_norm": 0.1},
    "static scale": {"loss_scale": 128.0},
    "dynamic scale": {"loss_scale": "dynamic"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_options_of_the_optimizer(name, form):
    """A scale that no gradient overflows with leaves the curve as it is; the other options change it."""
    batch = classifier_batch()
    plain = curve(make_trainable(classifier(), LOSS, optimizer("sgd", 0.1), form=form), batch)[0]
    losses = curve(make_trainable(classifier(), LOSS, optimizer("sgd", 0.1, **OPTIONS[name]), form=form), batch)[0]
    assert (losses == pytest.approx(plain, rel=1e-4)) == ("scale" in name)
    if name == "accumulate":
        assert losses[0] == losses[1] == losses[2] > losses[3]


def test_a_float16_model_trains_with_a_dynamic_loss_scale():
    scaled = optimizer("sgd", 0.05, loss_scale="dynamic")
    training = make_trainable(classifier(dtype=np.float16), LOSS, scaled, form="expanded")
    losses, states = curve(training, classifier_batch(dtype=np.float16), 12)
    assert losses[-1] < losses[0] and states["w0"].dtype == np.float16


def test_the_step_is_gradient_descent():
    """With the mean squared error of y = x w, the step is known in closed form."""
    main = model(
        [node("MatMul", ["x", "w"], ["y"])], [value("x", ["n", 2])], [value("y", ["n", 1])], {"w": np.ones((2, 1), "f")}
    )
    x = np.random.RandomState(3).randn(5, 2).astype(np.float32)
    t = np.random.RandomState(4).randn(5, 1).astype(np.float32)
    expected = 1 - 0.1 * 2 * x.T @ (x.sum(1, keepdims=True) - t) / 5
    for form in FORMS:
        losses, states = curve(make_trainable(main, "mse", optimizer("sgd", 0.1), form=form), {"x": x, "labels": t}, 1)
        assert losses[0] == pytest.approx(((x.sum(1, keepdims=True) - t) ** 2).mean(), rel=1e-5)
        np.testing.assert_allclose(states["w"], expected, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_main_graph_stays_as_it_is(form):
    main = classifier(normalized=True, ratio=0.5)
    content = main.graph.SerializeToString()
    training = make_trainable(main, LOSS, "adam", metrics=["accuracy"], form=form)
    assert training.graph.SerializeToString() == content == main.graph.SerializeToString()
    batch = classifier_batch()
    expected = onnx_compat.run(main, [batch["x"]], shim="reference")["scores"]
    trainer = prepare_training(training, shim="reference")
    np.testing.assert_allclose(trainer.predict({"x": batch["x"]})["scores"], expected, rtol=1e-5)


def test_a_user_may_set_the_learning_rate_between_steps():
    trainer = prepare_training(make_trainable(classifier(), LOSS, optimizer("sgd", 0.1)), shim="reference")
    trainer.load_state({"training/learning_rate": np.float32(0)})
    batch, before = classifier_batch(), trainer.state()
    trainer.step(batch)
    np.testing.assert_array_equal(trainer.state()["w0"], before["w0"])
    assert trainer.state()["training/step"] == 1 and trainer.state()["training/learning_rate"] == 0


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_onnxruntime_runs_the_expanded_step_at_other_opsets(opset):
    onnxruntime = pytest.importorskip("onnxruntime")
    require_opset(opset)
    from onnx_compat.training.parts import build_step
    from onnx_compat.training.training_info import read_training_info

    batch = classifier_batch()
    adam = optimizer("adam", 0.02)
    expected = curve(make_trainable(classifier(normalized=True), LOSS, adam), batch, 20)[0]
    training = make_trainable(classifier(normalized=True), LOSS, adam, form="expanded", opset=opset)
    part = build_step(read_training_info(training))
    assert {entry.domain: entry.version for entry in part.proto.opset_import} == {"": opset}
    session = onnxruntime.InferenceSession(part.proto.SerializeToString(), providers=["CPUExecutionProvider"])
    states = {name: prepare_training(training, shim="reference").state()[name] for name in part.states}
    losses = []
    for _ in range(20):
        results = dict(zip([port.name for port in session.get_outputs()], session.run(None, {**batch, **states})))
        states.update((state, results[output]) for state, output in part.updates.items())
        losses.append(float(results["loss"]))
    assert losses == pytest.approx(expected, rel=1e-5)


# -- parameters --------------------------------------------------------------------------------------------------------
def parameters_model():
    """Return a model with initializers of each kind: parameters, statistics, settings, numbers, and an unused tensor."""
    stored = {
        "image": np.ones((2, 1, 3, 3), "f"),
        "scale": np.ones(2, "f"),
        "shift": np.zeros(2, "f"),
        "mean": np.zeros(2, "f"),
        "variance": np.ones(2, "f"),
        "low": np.float32(0),
        "scales": np.array([1, 1, 2, 2], "f"),
        "half": np.float32(0.5),
        "power": np.array([2], "f"),
        "unused": np.ones(3, "f"),
        "target": np.array([-1, 72], np.int64),
        "tied": np.ones((72, 72), "f"),
    }
    nodes = [
        node("Conv", ["x", "image"], ["a"]),
        node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]),
        node("Clip", ["b", "low"], ["c"]),
        node("Resize", ["c", "", "scales"], ["d"]),
        node("Mul", ["d", "half"], ["e"]),
        node("Pow", ["e", "power"], ["f"]),
        node("Reshape", ["f", "target"], ["g"]),
        node("MatMul", ["g", "tied"], ["h"]),
        node("MatMul", ["h", "tied"], ["y"]),
        node("Floor", ["unused"], ["z"]),
    ]
    ports = [value("x", ["n", 1, 8, 8])], [value("y", ["n", 72]), value("z", [3])]
    return model(nodes, *ports, stored)


def test_the_default_parameters():
    training = make_trainable(parameters_model(), {"y": "mse"}, "sgd")
    assert parameters_of(training) == ["mean", "variance", "image", "scale", "shift", "tied"]
    training = make_trainable(parameters_model(), {"y": "mse"}, "sgd", form="expanded")
    assert sorted(parameters_of(training)) == ["image", "mean", "scale", "shift", "tied", "variance"]


def test_patterns_choose_parameters():
    assert parameters_of(make_trainable(parameters_model(), {"y": "mse"}, trainable=["ti*", "half"])) == [
        "half",
        "tied",
    ]
    assert parameters_of(make_trainable(parameters_model(), {"y": "mse"}, trainable="image")) == ["image"]


PATTERNS = {
    "no initializer": ("imge", "did you mean 'image'"),
    "a statistic": ("mean", "'mean', which is a statistic or a setting"),
    "a setting": ("scales", "'scales', which is a statistic or a setting"),
    "a shape": ("target", "int64"),
    "no gradient": ("unused", "depends on no trainable parameter"),
}


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_wrong_patterns_are_refused(name):
    pattern, message = PATTERNS[name]
    with pytest.raises(InputError, match=message):
        make_trainable(parameters_model(), {"y": "mse"}, trainable=[pattern])


def test_a_weight_whose_value_must_be_known_is_no_parameter():
    """An operator that the table of settings does not list needs the value: the depth of a sequence, for one."""
    nodes = [
        node("Cast", ["size"], ["length"], to=INT64),
        node("Expand", ["w", "length"], ["h"]),
        node("Mul", ["h", "x"], ["y"]),
    ]
    stored = {"w": np.ones((1, 3), "f"), "size": np.array([2, 3], "f")}
    main = model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], stored)
    assert parameters_of(make_trainable(main, "mse")) == ["w"]


def test_a_tied_weight_is_one_parameter():
    stored = {"w": np.array([[0.5]], "f")}
    main = model(
        [node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "w"], ["y"])],
        [value("x", ["n", 1])],
        [value("y", ["n", 1])],
        stored,
    )
    batch = {"x": np.array([[2]], "f"), "labels": np.array([[1]], "f")}
    for form in FORMS:  # y = x w w: the derivative of (y - 1)^2 is 2 (y - 1) * 2 x w
        states = curve(make_trainable(main, "mse", optimizer("sgd", 0.1), form=form), batch, 1)[1]
        assert states["w"][0, 0] == pytest.approx(0.5 - 0.1 * 2 * (0.5 - 1) * 2)


# -- losses and labels -------------------------------------------------------------------------------------------------
def squared_error(labels, predictions):
    distance = p.sub(predictions, labels)
    return p.mul(distance, distance)


def squared_function():
    """Return the squared error as an ONNX function."""
    nodes = [node("Sub", ["p", "t"], ["d"]), node("Mul", ["d", "d"], ["l"])]
    return helper.make_function("my.domain", "Squared", ["t", "p"], ["l"], nodes, [helper.make_opsetid("", 13)])


def squared_graph(inputs=("t", "p")):
    nodes = [
        node("Sub", ["p", "t"], ["d"]),
        node("Mul", ["d", "d"], ["l"]),
        node("ReduceMean", ["l"], ["m"], keepdims=0),
    ]
    return helper.make_graph(nodes, "loss", [value(name) for name in inputs], [value("m")])


LOSSES = {
    "a name": lambda: "mse",
    "a class of Keras": lambda: "MeanSquaredError",
    "a function": lambda: squared_error,
    "a name with options": lambda: ("huber", {"delta": 1e9}),
    "an ONNX function": squared_function,
    "an ONNX graph": squared_graph,
    "an ONNX model": lambda: helper.make_model(
        squared_graph(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_loss_may_be_given_in_each_way(name, form):
    batch = {"x": classifier_batch()["x"], "labels": np.random.RandomState(0).randn(16, 3).astype("f")}
    expected = curve(make_trainable(classifier(), "mse"), batch, 3)[0]
    factor = 0.5 if name == "a name with options" else 1
    losses = curve(make_trainable(classifier(), LOSSES[name](), form=form), batch, 3)[0]
    assert losses[0] == pytest.approx(factor * expected[0], rel=1e-5) and losses[2] < losses[0]


def test_options_reach_the_loss_and_the_metrics():
    batch = classifier_batch()
    logits = ("sparse_categorical_crossentropy", {"from_logits": True})
    training = make_trainable(
        classifier(), logits, metrics=["accuracy", ("sparse_top_k_categorical_accuracy", {"k": 3})]
    )
    trainer = prepare_training(training, shim="reference")
    results = trainer.step(batch)
    assert results["loss"] == pytest.approx(curve(make_trainable(classifier(), LOSS), batch, 1)[0][0], rel=1e-5)
    assert results["sparse_top_k_categorical_accuracy"] == 1 and 0 <= results["accuracy"] <= 1


def two_outputs():
    main = classifier()
    main.graph.node.append(node("Neg", ["scores"], ["other"]))
    main.graph.output.append(value("other", ["n", 3]))
    return main


@pytest.mark.parametrize("form", FORMS)
def test_the_losses_of_several_outputs_are_added(form):
    batch = dict(classifier_batch(), regression=np.zeros((16, 3), "f"))
    labels = [batch.pop("labels"), batch.pop("regression")]
    losses = {"scores": LOSS, "other": "mse"}
    alone = [
        curve(make_trainable(two_outputs(), {name: losses[name]}), {"x": batch["x"], "labels": given}, 1)[0][0]
        for name, given in zip(losses, labels)
    ]
    training = make_trainable(two_outputs(), losses, form=form)
    given = {"x": batch["x"], "labels_scores": labels[0], "labels_other": labels[1]}
    assert curve(training, given, 1)[0][0] == pytest.approx(sum(alone), rel=1e-5)
    training = make_trainable(two_outputs(), losses, labels=["class", "number"], form=form)
    assert [port.name for port in training.training_info[0].algorithm.input] == ["class", "number"]


def test_labels_may_be_declared():
    labels = helper.make_tensor_value_info("class", TensorProto.INT32, ["n", 1])
    training = make_trainable(classifier(), ("sparse_categorical_crossentropy", {"from_logits": True}), labels=labels)
    batch = classifier_batch()
    given = {"x": batch["x"], "class": batch["labels"].astype(np.int32)[:, None]}
    assert curve(training, given, 1)[0] == pytest.approx(curve(make_trainable(classifier(), LOSS), batch, 1)[0])


MISTAKES = {
    "a loss that does not exist": ({"loss": "mean_sqared_error"}, "did you mean 'mean_squared_error'"),
    "a loss of another kind": ({"loss": 3}, "the loss is a int"),
    "an output that does not exist": ({"loss": {"score": LOSS}}, "no output 'score'"),
    "no loss": ({"loss": {}}, "no loss is given"),
    "an optimizer that does not exist": ({"optimizer": "adamm"}, "did you mean 'adam'"),
    "a metric that does not exist": ({"metrics": ["acuracy"]}, "did you mean 'accuracy'"),
    "a metric of another kind": ({"metrics": [3]}, "a metric is a int"),
    "a form that does not exist": ({"form": "graph"}, "no form 'graph'"),
    "labels of a name in use": ({"labels": "w0"}, "'w0' of the labels is in use"),
    "too many labels": ({"labels": ["a", "b"]}, "1 losses and 2 labels"),
    "labels of another kind": ({"labels": [3]}, "the labels are a int"),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_mistakes_are_refused(name):
    arguments, message = MISTAKES[name]
    with pytest.raises(InputError, match=message):
        make_trainable(classifier(), **{"loss": LOSS, **arguments})


def test_several_outputs_need_a_choice():
    with pytest.raises(InputError, match="several outputs: 'scores', 'other'"):
        make_trainable(two_outputs(), LOSS)


def test_a_loss_of_other_inputs_is_refused():
    with pytest.raises(InvalidModelError, match="the loss has the inputs"):
        make_trainable(classifier(), squared_graph(("t", "p", "weight")))


def test_a_loss_that_no_parameter_reaches_is_refused():
    main = model(
        [node("Floor", ["w"], ["h"]), node("Mul", ["x", "h"], ["y"])],
        [value("x", [2])],
        [value("y", [2])],
        {"w": np.ones(2, "f")},
    )
    with pytest.raises(InputError, match="depends on no trainable parameter; considered were 'w'"):
        make_trainable(main, "mse")
    constant = model([node("Neg", ["x"], ["y"])], [value("x", [2])], [value("y", [2])])
    with pytest.raises(InputError, match="no float initializers to train"):
        make_trainable(constant, "mse")


@pytest.mark.parametrize("form", FORMS)
def test_a_derivative_that_does_not_exist_is_named(form):
    """The error names the node and the primitive; a model whose frozen part has no derivative trains."""
    require_opset(26)
    stored = {"w": np.ones((2, 2), "f"), "v": np.ones(2, "f")}
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("BitCast", ["h"], ["b"], to=TensorProto.INT32, name="bits"),
        node("BitCast", ["b"], ["i"], to=FLOAT),
        node("Mul", ["i", "v"], ["y"]),
    ]
    main = model(nodes, [value("x", ["n", 2])], [value("y", ["n", 2])], stored, 26)
    with pytest.raises(UnsupportedError, match="'bitcast' has no derivative") as refusal:
        make_trainable(main, "mse", form=form)
    assert refusal.value.node.startswith("BitCast") and "freeze" in refusal.value.hint
    assert parameters_of(make_trainable(main, "mse", trainable=["v"], form=form)) == ["v"]


def test_initialize_draws_weights_and_resets_the_rest():
    training = make_trainable(classifier(normalized=True), LOSS, "adam")
    trainer = prepare_training(training, shim="reference")
    trainer.step(classifier_batch())
    trainer.initialize(seed=3)
    state = trainer.state()
    limit = (6 / 12) ** 0.5
    assert np.abs(state["w0"]).max() <= limit and np.abs(state["w0"]).max() > limit / 2 and np.std(state["w0"]) > 0
    assert (state["scale"] == 1).all() and (state["variance"] == 1).all()
    for name in ("b0", "shift", "mean", "w0/momentum", "w0/velocity", "training/step"):
        assert not state[name].any(), name
    assert state["training/learning_rate"] == np.float32(0.001)
    batch = classifier_batch()
    first = trainer.step(batch)["loss"]
    assert min(trainer.step(batch)["loss"] for _ in range(30)) < first


def test_external_data_are_read_into_the_training_model(tmp_path):
    batch = classifier_batch()
    expected = curve(make_trainable(classifier(), LOSS), batch, 2)[0]
    path = str(tmp_path / "m.onnx")
    onnx.save(classifier(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    with open(path, "rb") as stream:
        content = stream.read()
    for source in (path, onnx_compat.load(path), onnx_compat.load(content, str(tmp_path))):
        training = make_trainable(source, LOSS)
        assert all(tensor.data_location != tensor.EXTERNAL for tensor in training.graph.initializer)
        assert curve(training, batch, 2)[0] == pytest.approx(expected)


def test_a_scalar_function_is_a_loss():
    training = make_trainable(
        classifier(), lambda labels, y: scalar_loss(LOSS, labels, y), labels=value("labels", ["n"], INT64)
    )
    batch = classifier_batch()
    assert curve(training, batch, 2)[0] == pytest.approx(curve(make_trainable(classifier(), LOSS), batch, 2)[0])
