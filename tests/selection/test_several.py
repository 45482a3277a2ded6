"""Environments with several frameworks: the shim that is selected by default, and the settings that change it."""

import pytest

FIRST = "the first installed shim that works"


def test_the_default_and_each_by_name(environment):
    offered, decision, keras, tflite, reference, ran = environment("several-py311").ask(
        "offer", "decide", "decide keras", "decide tflite", "decide reference", "run tflite"
    )
    assert offered["brought"] == []
    assert decision == {"name": "tf2", "reason": FIRST, "passed": {}, "warned": []}
    assert [answer["name"] for answer in (keras, tflite, reference)] == ["keras", "tflite", "reference"]
    assert {answer["reason"] for answer in (keras, tflite, reference)} == {"asked for by name"}
    assert ran == {"shim": "tflite", "y": [2, 4]}


def test_the_variable_decides_unless_one_is_named(environment):
    set_, named, ran = environment("several-py311").ask("decide", "decide reference", "run", ONNX_COMPAT_SHIM="tflite")
    assert (set_["name"], set_["reason"]) == ("tflite", "ONNX_COMPAT_SHIM is set")
    assert (named["name"], named["reason"]) == ("reference", "asked for by name")
    assert ran == {"shim": "tflite", "y": [2, 4]}


@pytest.mark.parametrize("late", [False, True], ids=["framework-first", "onnx_compat-first"])
@pytest.mark.parametrize(
    ("module", "shim"), [("tensorflow", "tf2"), ("keras", "keras"), ("ai_edge_litert.interpreter", "tflite")]
)
def test_the_framework_that_the_user_imported_comes_first(environment, module, shim, late):
    """Only the user's own imports count: a probe imports frameworks too, and Keras and TensorFlow import each other."""
    steps = ["import " + module, "offer", "decide"]
    *_, decision = environment("several-py311").ask(
        *(["import onnx_compat.discovery.selection"] if late else []), *steps
    )
    assert decision["name"] == shim
    assert decision["reason"] == "%s is imported already" % module.split(".", maxsplit=1)[0]


def test_a_framework_that_a_probe_imported_does_not_come_first(environment):
    _, litert, again = environment("several-py311").ask("decide tflite", "decide reference", "decide")
    assert litert["name"] == "reference"
    assert again["reason"] == FIRST


@pytest.mark.parametrize("back_end", ["jax", "torch"])
def test_keras_runs_on_the_back_end_that_is_set(environment, back_end):
    here = environment("several-py311")
    (decision,) = here.ask("import keras", "decide", KERAS_BACKEND=back_end)
    assert (decision["name"], decision["reason"]) == ("keras", "keras is imported already")


def test_an_unknown_back_end_is_reported(environment):
    (keras,) = environment("several-py311").ask("decide keras", KERAS_BACKEND="theano")
    assert "theano" in keras["reason"]
    assert keras["hint"] == "set KERAS_BACKEND to tensorflow, jax or torch"


def test_doctor_lists_all_shims(environment):
    report = environment("several-py311").doctor(KERAS_BACKEND="jax")
    assert (report["code"], report["selected"], report["decision"]) == (0, "tf2", FIRST)
    assert {name for name, shim in report["shim"].items() if shim["available"]} == {
        "tf2", "keras", "tflite", "reference",
    }  # fmt: skip
    assert report["shim"]["keras"]["features"]["back_end"] == "jax"
    assert [shim["name"] for shim in report["absent"]] == ["tf1"]


@pytest.mark.parametrize(
    ("name", "selected", "other_shim", "why"),
    [
        ("tf1-py37", "tf1", "tf2", "builds graphs for sessions: use the shim tf1"),
        ("tf2-py38", "tf2", "tf1", "executes eagerly: use the shim tf2"),
    ],
)
def test_each_tensorflow_selects_its_shim(environment, name, selected, other_shim, why):
    here = environment(name)
    decision, refused, ran = here.ask("decide", "decide " + other_shim, "run")
    assert (decision["name"], decision["warned"]) == (selected, [])
    assert refused["error"] == "ShimError"
    assert why in refused["reason"]
    assert ran == {"shim": selected, "y": [2, 4]}
    (imported,) = here.ask("import tensorflow", "decide")
    assert (imported["name"], imported["reason"]) == (selected, "tensorflow is imported already")


def test_doctor_names_the_shim_of_a_tensorflow(environment):
    report = environment("tf1-py37").doctor()
    assert (report["code"], report["selected"]) == (0, "tf1")
    assert "use the shim tf1" in report["shim"]["tf2"]["reason"]
