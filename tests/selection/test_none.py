"""Environments without any shim and framework, with a shim and no framework, and with a framework and no shim."""

import pytest

ABSENT = {"none-py37": {"tf1", "tf2", "tflite"}, "none-py313": {"tf2", "keras", "tflite"}}


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_without_frameworks_the_reference_is_selected(environment, name):
    offered, decision, ran = environment(name).ask("offer", "decide", "run")
    assert offered["brought"] == []
    assert decision == {"name": "reference", "reason": "no installed shim works here", "passed": {}, "warned": []}
    assert ran == {"shim": "reference", "y": [2, 4]}


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_doctor_lists_the_extras_of_this_python(environment, name):
    here = environment(name)
    report = here.doctor()
    assert (report["code"], report["ok"], report["selected"]) == (0, True, "reference")
    absent = {shim["name"]: shim for shim in report["absent"]}
    assert {name for name, shim in absent.items() if shim["hint"]} == ABSENT[name]
    assert absent["tf2"]["hint"] == "pip install 'onnx-compat[tf2]'"
    for shim in absent.values():
        python = name.rsplit("-py3", maxsplit=1)[1]
        assert shim["hint"] or "not for Python 3.%s but for 3." % python in shim["reason"]
    text = here.run("-m", "onnx_compat", "doctor")
    assert (text.returncode, text.stderr) == (0, "")
    assert "selected: reference (no installed shim works here)" in text.stdout
    assert "tf2: not installed\n  hint: pip install 'onnx-compat[tf2]'\n" in text.stdout


def test_a_requested_absent_shim_is_refused_with_its_install_command(environment):
    tf1, tf2, mine = environment("none-py313").ask("decide tf1", "decide tf2", "decide mine")
    assert [answer["error"] for answer in (tf1, tf2, mine)] == ["ShimError"] * 3
    assert tf2["reason"] == "there is no shim 'tf2'; installed are reference"
    assert tf2["hint"] == "pip install 'onnx-compat[tf2]'"
    assert "another Python" in tf1["hint"]
    (kept,) = environment("none-py313").ask("decide", ONNX_COMPAT_SHIM="tf2")
    assert kept["error"] == "ShimError"
    doctor = environment("none-py313").doctor(ONNX_COMPAT_SHIM="tf2")
    assert (doctor["code"], doctor["ok"], doctor["selected"]) == (5, False, None)
    assert doctor["decision"].startswith("ONNX_COMPAT_SHIM is set to tf2: there is no shim 'tf2'")


def test_a_shim_without_its_framework_is_not_selected(environment):
    here = environment("bare-py313")
    decision, tf2, tflite, ran = here.ask("decide", "decide tf2", "decide tflite", "run")
    assert decision["name"] == ran["shim"] == "reference"
    assert list(decision["passed"]) == ["tf2", "tflite"]
    assert decision["warned"] == []  # nothing is broken
    assert tf2["reason"].startswith("TensorFlow is not installed")
    assert tf2["hint"] == "pip install 'onnx-compat[tf2]'"
    assert tflite["hint"] == "pip install 'onnx-compat[tflite]'"
    report = here.doctor()
    assert (report["code"], report["selected"]) == (0, "reference")
    assert report["shim"]["tf2"]["hint"] == tf2["hint"]


def test_a_framework_without_its_shim_hints_at_the_shim_alone(copy):
    here = copy("several-py311")
    for name in ("tf2", "keras"):
        here.drop("onnx_compat_%s-*.dist-info" % name)
    report = here.doctor()
    absent = {shim["name"]: shim for shim in report["absent"]}
    assert report["selected"] == "tflite"
    assert absent["tf2"]["reason"].startswith("not installed, its framework is: tensorflow-cpu 2.")
    assert absent["tf2"]["hint"].startswith("pip install 'onnx-compat-tf2==")
    assert absent["keras"]["hint"].startswith("pip install 'onnx-compat-keras==")
    assert absent["tf1"]["hint"] is None
