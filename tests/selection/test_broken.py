"""Broken frameworks and shims: another shim is selected, and `doctor` reports the cause and the remedy.

A request for the broken shim by its name raises an error with the cause.
"""

import pytest

REINSTALL = "pip install --force-reinstall --no-deps '%s=="


def passed_over(environment, shim, cause, remedy, instead):
    """Assert that the shim is passed over with this cause and remedy, and that `instead` is selected. Return the report."""
    offered, decision, named, ran = environment.ask("offer", "decide", "decide " + shim, "run")
    assert offered["brought"] == []
    assert decision["name"] == ran["shim"] == instead
    assert ran["y"] == [2, 4]
    assert cause in decision["passed"][shim]
    assert any(cause in text and remedy in text for text in decision["warned"])
    assert (named["error"], named["shim"]) == ("ShimError", shim)
    assert cause in named["reason"]
    assert remedy in named["hint"]
    report = environment.doctor()
    assert (report["code"], report["selected"]) == (0, instead)
    assert shim in report["decision"].partition("passed over: ")[2].split(", ")
    assert cause in report["shim"][shim]["reason"]
    assert remedy in report["shim"][shim]["hint"]
    return report


@pytest.mark.parametrize(
    ("name", "cause", "remedy"),
    [
        ("protobuf-py38", "is too new for tensorflow-cpu 2.4", "'onnx-compat[tf2-4-cpu]'"),
        ("numpy-py310", "is too new for tensorflow-cpu 2.10", "'onnx-compat[tf2-10-cpu]'"),
    ],
)
def test_a_package_that_is_too_new_for_its_tensorflow(environment, name, cause, remedy):
    here = environment(name)
    report = passed_over(here, "tf2", cause, remedy, "reference")
    assert "(%s " % name.split("-", maxsplit=1)[0] in report["shim"]["tf2"]["reason"]
    insisted = here.doctor(ONNX_COMPAT_SHIM="tf2")
    assert (insisted["code"], insisted["ok"], insisted["selected"]) == (5, False, None)
    assert cause in insisted["decision"]


def test_a_shared_library_of_tensorflow_2_is_missing(copy):
    here = copy("several-py311")
    (library,) = here.own("tensorflow").glob("libtensorflow_framework.so*")
    library.unlink()
    report = passed_over(here, "tf2", library.name, REINSTALL % "tensorflow-cpu", "tflite")
    assert library.name in report["shim"]["keras"]["reason"]  # which runs on it
    text = here.run("-m", "onnx_compat", "doctor")
    assert "tf2: hint: " + REINSTALL % "tensorflow-cpu" in text.stdout
    assert (text.returncode, text.stderr) == (0, "")


def test_a_shared_library_of_tensorflow_1_is_missing(copy):
    """The text of the import error contains a traceback, whose last line is the cause."""
    here = copy("tf1-py37")
    (library,) = here.own("tensorflow_core").glob("libtensorflow_framework.so*")
    library.unlink()
    passed_over(here, "tf1", library.name, REINSTALL % "tensorflow", "reference")


def test_an_extension_of_litert_is_missing(copy):
    here = copy("several-py311")
    for extension in here.own("ai_edge_litert").glob("_pywrap_litert_interpreter_wrapper*"):
        extension.unlink()
    (named,) = here.ask("decide tflite")
    assert "_pywrap_litert_interpreter_wrapper" in named["reason"]
    assert named["hint"].startswith(REINSTALL % "ai-edge-litert")


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not-listed"])
def test_only_a_folder_of_tensorflow_is_left(copy, listed):
    here = copy("several-py311")
    here.drop("tensorflow")
    (here.packages / "tensorflow").mkdir()
    if not listed:
        here.drop("tensorflow_cpu-*.dist-info")
    remedy = REINSTALL % "tensorflow-cpu" if listed else "delete %s" % (here.packages / "tensorflow")
    passed_over(here, "tf2", "installed in part only: there is no code in", remedy, "tflite")


def test_a_shim_cannot_be_imported(copy):
    here = copy("several-py311")
    here.put("onnx_compat_tf2", "raise RuntimeError('two\\nlines')\n")
    here.drop("onnx_compat_keras-*.dist-info")
    passed_over(here, "tf2", "it cannot be imported: RuntimeError: two", REINSTALL % "onnx-compat-tf2", "tflite")


def test_an_import_that_exits_is_an_error(copy):
    here = copy("several-py311")
    here.put("tensorflow", "raise SystemExit('no licence')\n")
    (decision,) = here.ask("decide", KERAS_BACKEND="jax")
    assert decision["name"] == "keras"
    assert decision["passed"] == {"tf2": "the probe failed: SystemExit: no licence"}


@pytest.mark.parametrize("signal", ["SIGABRT", "SIGILL", "SIGSEGV"])
def test_an_import_that_kills_the_process_kills_one_process(copy, signal):
    """The fake TensorFlow ends its process on import, as a build for another processor does."""
    here = copy("several-py311")
    here.put("tensorflow", "import os, signal\nos.kill(os.getpid(), signal.%s)\n" % signal)
    here.drop("onnx_compat_keras-*.dist-info")
    script = "from onnx_compat.discovery import selection; print(selection.decide())"
    killed = here.run("-c", script)
    assert killed.returncode < 0
    assert "tensorflow/__init__.py" in killed.stderr  # which it was
    cause = "its probe kills the process: %s in %s" % (signal, here.packages / "tensorflow" / "__init__.py")
    passed_over(here, "tf2", cause, "install a build of tensorflow-cpu", "tflite")
    here.put("tensorflow", "raise ImportError('mended, in a way')\n")
    (mended,) = here.ask("decide tf2")
    assert "mended, in a way" in mended["reason"]


def test_doctor_protects_the_next_process_from_a_killing_import(copy):
    here = copy("several-py311")
    here.put("tensorflow", "import os\nos.abort()\n")
    report = here.doctor()
    assert report["selected"] == "tflite"
    assert "SIGABRT" in report["shim"]["tf2"]["reason"]
    assert "SIGABRT" in report["shim"]["keras"]["reason"]
    assert "tensorflow-cpu" in report["shim"]["keras"]["hint"]  # the cause is the back end, not Keras
    (decision,) = here.ask("decide")
    assert decision["name"] == "tflite"


def test_an_import_that_hangs_is_reported(copy):
    here = copy("several-py311")
    here.put("tensorflow", "import time\ntime.sleep(100000)\n")
    code = "from onnx_compat.discovery.child_probe import probe_in_child; print(probe_in_child('tf2', ('tensorflow',), 20).probe.reason)"
    done = here.run("-c", code)
    assert done.stdout == "its probe has not come back for 20 seconds\n", done.stderr


def test_a_tensorflow_probability_of_another_version_is_ignored(copy):
    here = copy("tf2-py38")
    here.put("tensorflow_probability", "raise ImportError('this version requires a newer TensorFlow')\n")
    decision, ran = here.ask("decide", "run")
    assert decision["name"] == ran["shim"] == "tf2"
    assert decision["passed"] == {}


def test_a_broken_onnx_is_reported(copy):
    here = copy("none-py313")
    here.put("onnx", "raise TypeError('Descriptors cannot be created directly.')\n")
    report = here.doctor()
    assert (report["code"], report["ok"]) == (5, False)
    assert "Descriptors" in report["environment"]["onnx"]
    assert "onnx" in report["to do"]
