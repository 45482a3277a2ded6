"""Names of a model that hold terminal escapes and marks of text direction are escaped on every output."""

import json
from pathlib import Path
from typing import List, Sequence

import numpy as np
import onnx
import pytest
from bundles import Keeper
from onnx import TensorProto, helper
from registered import register

import onnx_compat
from onnx_compat.cli import main

ATTACK = "\x1b]0;title\x07\x1b[31m\u202e\u2066\x9b\x08\r\x7f"
SIGNS = {sign for sign in ATTACK if not sign.isprintable()}


def write(path: Path, operator: str) -> str:
    nodes = [
        helper.make_node("Relu", ["i" + ATTACK], ["m" + ATTACK], "n" + ATTACK),
        helper.make_node(operator, ["m" + ATTACK], ["o" + ATTACK], "b" + ATTACK),
    ]
    ports = [
        helper.make_tensor_value_info("i" + ATTACK, TensorProto.FLOAT, ["d" + ATTACK, 2]),
        helper.make_tensor_value_info("o" + ATTACK, TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "g" + ATTACK, ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="p" + ATTACK)
    onnx.save(model, str(path))
    return str(path)


#: MODEL is the attacked model; OUT is the start of a path in a temporary folder. Keeper is a fake framework without `exp`.
COMMANDS: List[str] = [
    "inspect MODEL",
    "inspect MODEL --no-shims",
    "inspect MODEL --program --shim reference",
    "run MODEL --shim reference",
    "run MODEL --shim reference --dim d\x1b=0x",
    "run MODEL --shim reference --debug --dim nope=1",
    "support MODEL --shim reference",
    "support MODEL --shim keeper",
    "support MODEL --shim keeper --to tflite",
    "verify MODEL --shim reference --oracle reference",
    "verify MODEL --shim reference --oracle reference --layers",
    "verify MODEL --nonsense" + ATTACK,
    "convert MODEL OUT.tflite --shim keeper",
    "convert MODEL OUT.tflite --shim keeper --explain",
    "convert MODEL OUT.tflite --shim keeper --allow-fallback --explain",
    "convert MODEL OUT.tflite --shim keeper --allow-fallback --verify",
    "convert MODEL OUT.tflite --shim keeper --shape d%s=1" % ATTACK,
    "convert MODEL OUT%s/no.tflite --shim keeper" % ATTACK,
    "convert MODEL OUT.onnx",
    "convert MODEL OUT.onnx --dry-run",
    "convert MODEL OUT.onnx --dry-run --explain",
    "convert MODEL OUT.onnx --simplify --explain --opset 13",
    "join MODEL MODEL OUT.onnx",
    "doctor --extra " + ATTACK,
]


def expand(command: str, operator: str, folder: Path) -> List[str]:
    """Return the words of a command, with its placeholders replaced."""
    model = write(folder / "m.onnx", operator)
    return [word.replace("MODEL", model).replace("OUT", str(folder / "out")) for word in command.split(" ")]


def check(texts: Sequence[str], as_json: bool) -> None:
    """Fail if a text holds a control character; if `as_json`, also if the first text is no JSON document."""
    for text in texts:
        assert not SIGNS & set(text), repr(text)
    if as_json:
        json.loads(texts[0])


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("operator", ["Neg", "Exp", "NoSuch" + ATTACK], ids=["known", "fallback", "unknown"])
@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_no_command_prints_an_escape(
    command: str,
    operator: str,
    as_json: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(monkeypatch, Keeper())
    main([*expand(command, operator, tmp_path), *(["--json"] if as_json else [])])
    check(list(capfd.readouterr()), as_json)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_inspect_escapes_the_names_in_a_bundle(
    as_json: bool, tmp_path: Path, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, Keeper())
    bundle = onnx_compat.convert(write(tmp_path / "m.onnx", "Exp"), tmp_path / "m.tflite", allow_fallback=True)
    assert main(["inspect", str(bundle), *(["--json"] if as_json else [])]) == 0
    output = list(capfd.readouterr())
    check(output, as_json)
    assert "title" in output[0]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_doctor_escapes_what_the_environment_holds(
    as_json: bool, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "no" + ATTACK)
    main(["doctor", *(["--json"] if as_json else [])])
    output = list(capfd.readouterr())
    check(output, as_json)
    assert "title" in output[0]


def test_the_html_report_escapes_names(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    main(["verify", write(tmp_path / "m.onnx", "Neg"), "--shim=reference", "--oracle=reference", "--report=%s" % page])
    text = page.read_text(encoding="utf-8")
    assert "title" in text and not SIGNS & set(text)


def test_warnings_escape_names(tmp_path: Path) -> None:
    proto = onnx.load(write(tmp_path / "m.onnx", "Add"))
    proto.graph.node[0].op_type = "LeakyRelu"
    proto.graph.node[0].attribute.append(helper.make_attribute("alpha\x1b", 2.0))
    proto.graph.node[1].input.append("j" + ATTACK)
    sizes = ["d" + ATTACK, 2]
    proto.graph.input.append(helper.make_tensor_value_info("j" + ATTACK, TensorProto.FLOAT, sizes))
    with pytest.warns(RuntimeWarning) as records:
        onnx_compat.run(proto, [np.zeros((1, 2), np.float32), np.zeros((3, 2), np.float32)], shim="reference")
    texts = [str(record.message) for record in records]
    check(texts, as_json=False)
    assert all(any(word in text for text in texts) for word in ("did you mean 'alpha'", "contradict the declarations"))


def test_an_error_is_escaped_and_keeps_its_fields(tmp_path: Path) -> None:
    with pytest.raises(onnx_compat.OnnxCompatError) as raised:
        onnx_compat.run(write(tmp_path / "m.onnx", "NoSuch" + ATTACK), [[[1.0, 2.0]]], shim="reference")
    assert raised.value.node == "b" + ATTACK
    assert not SIGNS & set(str(raised.value))
    assert "\\x1b]0;title\\x07" in str(raised.value)
