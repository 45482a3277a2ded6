import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import onnx_compat
from onnx_compat.cli import run_command
from onnx_compat.cli.exit_codes import CODES, INTERNAL, code_of
from onnx_compat.discovery import selection
from onnx_compat.errors import ShimError
from onnx_compat.execution.support import UNSEEN
from onnx_compat.verification import load_npz, save_npz

VERIFY = ("verify", "m.onnx", "--oracle", "reference")


def test_verify_passes_and_fails(command):
    code, out, _ = command(*VERIFY)
    assert code == 0
    assert "match" in out
    assert "OK: 1 of 1 outputs" in out
    code, out, _ = command(*VERIFY, "--shim", "off")
    assert code == 1
    assert "FAILED" in out
    assert "mismatch" in out


def test_verify_layers_and_a_page(command, tmp_path, monkeypatch):
    from onnx_compat.verification import Comparison, Layer, Layers, verify_model

    comparison = Comparison("y", "mismatch", "float32", (2, 3), "float32", (2, 3), 6, 6, 0.5, 0.25, 0.5)
    layer = Layer("y", "add_0", "Add", comparison, 12.0, ("add_0",), ("ADD",), comparison)
    layers = Layers([layer], [], "add_0", "the first node that departs is 'add_0'", ["a note"])
    monkeypatch.setattr(verify_model, "examine_layers", lambda *_: layers)
    page = tmp_path / "r.html"
    code, out, _ = command(*VERIFY, "--layers")
    assert code == 0  # the outputs agree
    assert re.search(r"^add_0 +Add +y +float32\[2, 3\] +0.5 +0.25 +12 +mismatch, alone too +ADD$", out, re.MULTILINE)
    assert "layers: the first node that departs is 'add_0'" in out
    code, out, _ = command(*VERIFY, "--report", page)
    assert (code, page.exists()) == (0, True)
    assert "wrote %s" % page in out
    code, _, err = command(*VERIFY, "--report", tmp_path / "no" / "r.html")
    assert code == 6
    assert "does not exist" in err
    document = json.loads(command(*VERIFY, "--layers", "--json")[1])
    assert document["layers"]["layers"][0]["alone"]["verdict"] == "mismatch"


def test_verify_json(command):
    code, out, err = command(*VERIFY, "--shim", "off", "--json", "--seed", "7", "--dim", "batch=4")
    document = json.loads(out)
    assert (code, document["ok"], document["seed"]) == (1, False, 7)
    assert document["inputs"] == [{"name": "x", "dtype": "float32", "shape": [4, 3]}]
    assert err == ""


def test_run_on_given_inputs(command, tmp_path):
    given, output = save_npz(tmp_path / "in.npz", {"x": np.float32([[1, 2, 3]])}), tmp_path / "out.npz"
    code, out, _ = command("run", "m.onnx", "--inputs", given, "--output", output)
    assert code == 0
    assert "float32[1, 3]" in out
    assert load_npz(output)["y"].tolist() == [[2, 4, 6]]


def test_run_json(command):
    code, out, _ = command("run", "m.onnx", "--json", "--shim", "noisy")
    document = json.loads(out)
    assert (code, document["shim"], document["outputs"][0]["shape"]) == (0, "noisy", [2, 3])


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        ({"a": 1.0, "b": 2.0}, "map", [2]),
        ([{"a": 1.0}], "sequence", [1]),
        (None, "none", []),
        (np.array(["a"], object), "string", [1]),
    ],
    ids=["map", "sequence", "none", "text"],
)
def test_the_summary_of_a_value_without_numbers(value, dtype, shape):
    none = {"min": None, "max": None, "mean": None}
    assert run_command._summarize_value("y", value) == dict(none, name="y", dtype=dtype, shape=shape)


def test_prints_of_a_framework_go_to_standard_error(command):
    _, out, err = command("run", "m.onnx", "--shim", "noisy")
    assert "hello" not in out
    assert "hello from a framework" in err


def test_convert(command, tmp_path):
    code, out, _ = command("convert", "m.onnx", tmp_path / "m.tflite")
    assert code == 0
    assert "m.tflite (2.0 kB)" in out
    code, out, _ = command("convert", "m.onnx", tmp_path / "m.tflite", "--json")
    assert json.loads(out)["bytes"] == 2048


def test_convert_and_verify(command, tmp_path, monkeypatch, runnable):
    from onnx_compat.verification import verify_model

    monkeypatch.setattr(verify_model, "open_converted", lambda *_: runnable("tflite", factor=3.0))
    code, out, _ = command("convert", "m.onnx", tmp_path / "m.tflite", "--verify")
    assert code == 1
    assert "FAILED" in out


def test_no_command_writes_over_what_it_reads(command, tmp_path):
    model, given = tmp_path / "m.onnx", save_npz(tmp_path / "in.npz", {"x": np.float32([[1, 2, 3]])})
    model.write_bytes(b"a model")
    before = given.read_bytes()
    for arguments in (
        ("run", model, "--output", model),
        ("run", "m.onnx", "--inputs", given, "--output", given),
        ("verify", model, "--report", model),
        ("verify", "m.onnx", "--inputs", given, "--report", given),
        ("convert", model, tmp_path / "m.tflite", "--report", model),
    ):
        code, _, err = command(*arguments)
        assert (code, "overwrite a file that is read" in err) == (6, True), arguments
    assert (model.read_bytes(), given.read_bytes()) == (b"a model", before)


@pytest.mark.parametrize("option", ["--inputs=x.npz", "--dim=batch=2", "--rtol=1", "--atol=1"])
def test_an_option_of_verify_without_it_is_refused(command, tmp_path, option):
    code, _, err = command("convert", "m.onnx", tmp_path / "m.tflite", option)
    assert (code, "add --verify" in err) == (2, True)
    assert ("--shape" in err) == option.startswith("--dim")
    assert not (tmp_path / "m.tflite").exists()


@pytest.mark.parametrize(
    "wrong", [("frob",), ("convert", "m.onnx"), ("run", "m.onnx", "--frob"), ("run", "m", "--dim=a")]
)
def test_a_wrong_command_line_is_json_too(command, wrong):
    code, out, err = command(*wrong, "--json")
    document = json.loads(out)
    assert (code, err) == (2, "")
    assert (document["ok"], document["exit_code"]) == (False, 2)
    assert document["error"]["reason"]


def test_an_interrupt_while_the_command_is_imported(command, monkeypatch):
    class Interrupted:
        def find_spec(self, name, *_):
            if name == "onnx_compat.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "onnx_compat.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert command("run", "m.onnx") == (130, "", "interrupted\n")


def test_support(command):
    code, out, _ = command("support", "m.onnx")
    assert code == 0
    assert "1 node: 1 native" in out
    code, out, _ = command("support", "m.onnx", "--shim", "off", "--json")
    assert code == 1
    assert json.loads(out)["counts"] == {"unsupported": 1}


def test_inspect(command):
    code, out, _ = command("inspect", "m.onnx")
    assert code == 0
    assert "IR version 7, opset ai.onnx 13 (onnx 1.8.0 and newer)" in out
    assert re.search(r"^input +x +float32\[batch, 3\] +batch$", out, re.MULTILINE)
    assert re.search(r"^reference +yes +1 native$", out, re.MULTILINE)
    _, out, _ = command("inspect", "m.onnx", "--json")
    assert json.loads(out)["operators"] == [{"operator": "Add", "opset": 13, "nodes": 1}]


@pytest.mark.parametrize(("status", "takes"), [("native", "yes"), ("fallback", "in parts"), ("unsupported", "no")])
def test_inspect_lists_the_shims_that_run_the_model(command, monkeypatch, status, takes):
    monkeypatch.setattr(onnx_compat, "support", lambda *_, **__: [SimpleNamespace(status=status, reason="")])
    (row,) = json.loads(command("inspect", "m.onnx", "--json")[1])["shims"]
    assert row == {"shim": "reference", "takes": takes, "counts": {status: 1}, "reason": ""}


def test_inspect_marks_a_shim_if_a_node_was_not_examined(command, monkeypatch):
    nodes = [SimpleNamespace(status="composed", reason=reason) for reason in ("", UNSEEN)]
    monkeypatch.setattr(onnx_compat, "support", lambda *_, **__: nodes)
    out = command("inspect", "m.onnx")[1]
    assert re.search(r"^reference +perhaps +1 composed, 1 not looked at$", out, re.MULTILINE)


def test_inspect_of_a_shim_that_refuses_the_whole_model(command, monkeypatch):
    def refuse(*_, **__):
        raise ShimError("it has no floats", shim="reference")

    monkeypatch.setattr(onnx_compat, "support", refuse)
    assert re.search(r"^reference +no +it has no floats$", command("inspect", "m.onnx")[1], re.MULTILINE)
    assert "shims" not in json.loads(command("inspect", "m.onnx", "--json", "--no-shims")[1])
    assert "reference" not in command("inspect", "m.onnx", "--no-shims")[1]


def test_doctor(command):
    code, out, _ = command("doctor")
    assert code == 0
    assert "tensorflow is not installed" in out
    assert "tf2: hint: pip install it" in out
    assert "reference: features: f16" in out.splitlines()
    assert "selected: reference (nothing else is here)" in out
    _, out, _ = command("doctor", "--json")
    document = json.loads(out)
    assert (document["selected"], document["decision"]) == ("reference", "nothing else is here")


def test_doctor_of_a_chosen_shim_that_does_not_work(command, monkeypatch):
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "tf2")

    def refuse():
        raise ShimError("tensorflow is not installed", shim="tf2")

    monkeypatch.setattr(selection, "decide", refuse)
    code, out, _ = command("doctor")
    assert code == 5
    assert "selected: none (ONNX_COMPAT_SHIM is set to tf2: tensorflow is not installed)" in out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["verify", "broken.onnx"], 3, "cut short"),
        (["run", "m.onnx", "--shim", "none"], 5, "hint: choose one of"),
        (["run", "m.onnx", "--inputs", "absent.npz"], 6, "no file 'absent.npz'"),
        (["convert", "m.onnx", "no/such/folder/m.tflite"], 6, "no/such/folder"),
        (["run"], 2, "MODEL"),
        (["fly"], 2, "fly"),
        (["run", "m.onnx", "--dim", "batch"], 2, "NAME=SIZE"),
    ],
)
def test_errors_are_text_and_a_code(command, arguments, code, text):
    got, out, err = command(*arguments)
    assert got == code
    assert text in err
    assert out == ""
    assert "Traceback" not in err


def test_errors_for_machines(command):
    code, out, _ = command("verify", "broken.onnx", "--json")
    document = json.loads(out)
    assert code == document["exit_code"] == 3
    assert document["ok"] is False
    assert document["error"]["type"] == "InvalidModelError"
    assert document["error"]["hint"] == "download it again"


def test_debug_shows_the_traceback(command):
    assert "Traceback" in command("verify", "broken.onnx", "--debug")[2]


def test_an_unknown_error_is_reported_as_a_defect(command, monkeypatch):
    monkeypatch.setattr(onnx_compat, "load", lambda _: 1 / 0)
    code, _, err = command("run", "m.onnx")
    assert code == 70
    assert "defect" in err
    assert "--debug" in err


def test_interrupted(command, monkeypatch):
    def interrupt(source):
        raise KeyboardInterrupt

    monkeypatch.setattr(onnx_compat, "load", interrupt)
    code, out, err = command("run", "m.onnx")
    assert code == 130
    assert out == ""
    assert "interrupted" in err
    assert "Traceback" not in err


def test_every_kind_of_error_has_a_code():
    from onnx_compat import errors

    internal = ("OnnxCompatError", "VerificationError", "UnexpectedError")
    kinds = [getattr(errors, name) for name in errors.__all__ if name not in internal]
    assert all(code_of(kind("x")) < 70 for kind in kinds)
    assert {code_of(getattr(errors, name)("x")) for name in internal[1:]} == {INTERNAL}


def test_names_that_look_like_markup_survive(command, monkeypatch):
    from onnx_compat.cli.output import table

    table(("name",), [["x[bold]"], ["[/red]"], [":smile:"]])
    assert command("--version")[1].split("\n")[1:4] == ["x[bold]", "[/red]", ":smile:"]


# -- as a process ---------------------------------------------------------------------------------------------------
CLI = [sys.executable, "-m", "onnx_compat"]


def test_help_is_complete_and_imports_nothing_heavy():
    code = "import sys; from onnx_compat.cli import main; main(['--help']); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
    for entry in CODES:
        assert re.search(r"^ +%d  " % entry.number, out, re.MULTILINE)
    for heavy in ("'numpy'", "'onnx'", "'rich'", "'tensorflow'", "'onnxruntime'"):
        assert heavy not in out


def test_a_closed_pipe_is_no_error():
    code = "from onnx_compat.cli.output import table; table(('n',), [[i] for i in range(50000)])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_the_documentation_names_every_option():
    """Check that docs/cli.md names every command, option and exit code."""
    page = Path(__file__).parents[3] / "docs" / "cli.md"
    if not page.exists():
        pytest.skip("the documentation is not part of a wheel")
    text = page.read_text(encoding="utf-8")
    from onnx_compat.cli.app import cli

    for name, sub in cli.commands.items():
        assert "onnx-compat %s" % name in text
        for parameter in sub.params:
            if parameter.param_type_name == "option":
                assert max(parameter.opts, key=len) in text, (name, parameter.opts)
    for entry in CODES:
        assert "| %d | %s |" % entry in text


def test_standard_output_without_unicode():
    environment = dict(os.environ, PYTHONIOENCODING="ascii")
    code = "from onnx_compat.cli.output import table; table(('a',), [['\u00f6']])"
    process = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
    assert process.stdout.split() == [b"a", b"\\xf6"]
