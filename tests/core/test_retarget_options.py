"""The options of conversions to .onnx: what a dry run lists, what the command line passes on, and the check of the result."""

import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from building import FLOAT, model, node, require_opset, value
from onnx import helper

import onnx_compat
from onnx_compat.cli.app import run
from onnx_compat.errors import ConversionError, InputError, OnnxCompatError, UnsupportedError
from onnx_compat.retarget import conversion
from onnx_compat.retarget.conversion import plan
from onnx_compat.verification import onnx_file, oracle

WEIGHT = np.linspace(-1, 1, 48 * 48, dtype=np.float32).reshape(48, 48)


def network() -> Any:
    """Return a model of opset 18 with a function, an Identity, a weight, and a reduction with axes."""
    nodes = [
        node("Identity", ["x"], ["same"], name="same"),
        node("MatMul", ["same", "w"], ["h"], name="product"),
        node("f", ["h"], ["r"], domain="my", name="call"),
        node("ReduceMean", ["r", "axes"], ["y"], name="mean", keepdims=0),
    ]
    constants = {"w": WEIGHT, "axes": np.asarray([1])}
    ports = [value("x", ["n", 48])], [value("y", ["n"])]
    proto = model(nodes, *ports, constants, 18, [helper.make_opsetid("my", 1)])
    body = [node("Relu", ["a"], ["b"])]
    proto.functions.append(helper.make_function("my", "f", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    return proto


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(network(), str(tmp_path / "m.onnx"))
    return str(tmp_path / "m.onnx")


def operators(path: Any) -> List[str]:
    return [entry.op_type for entry in onnx.load(str(path)).graph.node]


COMBINATIONS: List[Any] = [
    [],
    ["--opset", "13"],
    ["--opset", "13", "--ir-version", "6"],
    ["--opset", "11", "--inline-functions"],
    ["--opset", "13", "--simplify"],
    ["--opset", "13", "--external-data", "o.data"],
    ["--opset", "13", "--shape", "x=2,48"],
    ["--opset", "13", "--shape", "x=2,48", "--simplify", "--external-data", "safetensors"],
]


@pytest.mark.parametrize("arguments", COMBINATIONS)
def test_a_dry_run_lists_what_the_conversion_does(
    arguments: List[str], path: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    target = str(tmp_path / "o.onnx")
    command = ["convert", path, target, "--json", "--no-verify", *arguments]
    assert run([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    assert run(command) == 0
    done = json.loads(capsys.readouterr().out)["plan"]
    assert {name: planned[name] for name in done} == done


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--opset", "0"], "no opset 0"),
        (["--ir-version", "0"], "the oldest is 3"),
        (["--opset", "13", "--external-data", "a/b"], "beside the model"),
        (["--opset", "13", "--shape", "q=1"], "no input named 'q'"),
        (["--opset", "13", "--value", "q=1"], "no input named 'q'"),
    ],
)
def test_a_mistake_is_one_in_a_dry_run_too(
    arguments: List[str], text: str, is_dry: bool, path: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    command = ["convert", path, str(tmp_path / "o.onnx"), *arguments, *(["--dry-run"] if is_dry else [])]
    assert run(command) not in (0, 1)
    assert text in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_a_dry_run_checks_the_target_path(path: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for target in (path, str(tmp_path / "missing" / "o.onnx")):
        assert run(["convert", path, target, "--opset", "13", "--dry-run"]) not in (0, 1)
        assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "number"), [("block_size", 0), ("block_size", 32), ("calibrate", []), ("channels_last", ("x",))]
)
def test_zero_is_a_value_of_an_option(option: str, number: Any, path: str, tmp_path: Path) -> None:
    arguments: Dict[str, Any] = {option: number}
    if number == []:
        onnx_compat.convert(path, tmp_path / "o.onnx", **arguments)
        return
    with pytest.raises(ConversionError, match="'%s' is for files of frameworks" % option):
        onnx_compat.convert(path, tmp_path / "o.onnx", **arguments)


def eight_bits() -> Any:
    """Return a model with a type of IR version 9: in two nodes, in a branch, an initializer and a declared value."""
    eight = onnx.TensorProto.FLOAT8E4M3FN
    inner = helper.make_graph([node("Cast", ["x"], ["t"], name="inner", to=eight)], "g", [], [value("t", [2], eight)])
    nodes = [
        node("Cast", ["x"], ["a"], name="there", to=eight),
        node("Cast", ["a"], ["b"], name="back", to=FLOAT),
        node("If", ["c"], ["d"], name="choose", then_branch=inner, else_branch=inner),
        node("Cast", ["d"], ["y"], name="again", to=FLOAT),
        node("Cast", ["w"], ["z"], name="stored", to=FLOAT),
    ]
    ports = [value("x", [2]), value("c", [], onnx.TensorProto.BOOL)]
    proto = model(nodes, ports, [value("b", [2]), value("y", [2]), value("z", [2])], {}, 19)
    proto.graph.initializer.add(name="w", data_type=eight, dims=[2], raw_data=b"\0\0")
    proto.graph.value_info.append(value("a", [2], eight))
    proto.ir_version = 9
    return proto


def test_every_place_of_a_type_that_the_target_lacks_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    require_opset(19)
    onnx.save(eight_bits(), str(tmp_path / "m.onnx"))
    result = plan(tmp_path / "m.onnx", 19, 8)
    refused = [(entry.node, entry.operator) for entry in result.nodes if entry.outcome == "refused"]
    assert sorted(refused) == [
        ("a", "value"), ("inner", "Cast"), ("inner", "Cast"), ("t", "value"), ("there", "Cast"), ("w", "initializer"),
    ]  # fmt: skip
    assert len(result.nodes) == 7 + 3
    target = str(tmp_path / "o.onnx")
    assert run(["convert", str(tmp_path / "m.onnx"), target, "--ir-version", "8", "--dry-run"]) == 1
    assert capsys.readouterr().out.count("float8e4m3fn, which begins with IR version 9") == 6
    with pytest.raises(UnsupportedError, match=r"(?s)IR version 8.*'inner' \(Cast\)"):
        onnx_compat.convert(tmp_path / "m.onnx", target, ir_version=8)


def test_nodes_inside_of_a_refused_node_are_listed() -> None:
    clip = node("Clip", ["s", "lo"], ["o"], name="clip")
    body = helper.make_graph(
        [node("Identity", ["s"], ["s2"], name="same"), clip],
        "body",
        [value("s"), value("i")],
        [value("s2"), value("o")],
    )
    scan = node("Scan", ["s0", "x"], ["sN", "y"], body=body, num_scan_inputs=1, scan_input_axes=[-1], name="scan")
    proto = model([scan], [value("s0"), value("x"), value("lo", [])], [value("sN"), value("y")], {}, 13)
    assert [(entry.node, entry.outcome) for entry in plan(proto, 8).nodes] == [
        ("scan", "refused"), ("same", "kept"), ("clip", "refused"),
    ]  # fmt: skip


def test_options_reach_the_file(path: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    target = str(tmp_path / "o.onnx")
    assert run(["convert", path, target, "--inline-functions"]) == 0
    assert operators(target) == ["Identity", "MatMul", "Relu", "ReduceMean"]
    assert run(["convert", path, target, "--simplify", "--opset", "17"]) == 0
    assert operators(target) == ["MatMul", "f", "ReduceMean"]
    onnx_compat.convert(path, target, simplify=True, inline_functions=True)
    assert operators(target) == ["MatMul", "Relu", "ReduceMean"]
    written = onnx_compat.convert(path, tmp_path / "model.bin", to="onnx", opset=13)
    assert onnx.load(str(written)).opset_import[0].version == 13
    assert run(["convert", path, str(tmp_path / "p"), "--to", "onnx", "--opset", "13"]) == 0
    assert onnx.load(str(tmp_path / "p")).opset_import[0].version == 13


def test_a_wrong_result_is_refused_unless_verify_is_off(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    real = conversion.retarget_in_place

    def damage(proto: Any, *arguments: Any) -> Any:
        result = real(proto, *arguments)
        proto.functions[0].node[0].op_type = "Neg"
        return result

    monkeypatch.setattr(conversion, "retarget_in_place", damage)
    target = tmp_path / "o.onnx"
    with pytest.raises(ConversionError, match="the output 'y' of the written model differs from the source"):
        onnx_compat.convert(path, target, opset=17)
    assert run(["convert", path, str(target), "--opset", "17"]) != 0
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    assert run(["convert", path, str(target), "--opset", "17", "--no-verify"]) == 0
    target.unlink()
    onnx_compat.convert(path, target, opset=17, verify=False)
    assert target.exists()


def test_a_file_that_onnxruntime_cannot_run_names_the_reference(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = onnx_compat.convert(path, tmp_path / "o.onnx", opset=17)
    feed = {"x": np.ones((2, 48), np.float32)}

    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedError("onnxruntime says no")

    monkeypatch.setattr(oracle, "_run_on_onnxruntime", refuse)
    opened = onnx_compat.load_converted(written)
    opened.run(feed)
    assert opened.shim == "reference"
    assert opened.notes == ["'o.onnx' ran on the reference, because onnxruntime says no"]
    report = onnx_compat.verify(path, feed, converted=written)
    assert report.subject == "o.onnx on shim reference"
    assert opened.notes[0] in report.notes
    answered = oracle.Answer("onnxruntime 1.0", [np.zeros(2)], [])
    monkeypatch.setattr(oracle, "_run_on_onnxruntime", lambda *_: answered)
    opened.run(feed)
    assert (opened.shim, opened.notes) == ("onnxruntime", [])
    monkeypatch.setattr(onnx_file, "find_module", lambda _: None)
    assert onnx_compat.load_converted(written).shim == "reference"
    named = onnx_compat.load_converted(written, shim="reference")
    named.run(feed)
    assert (named.shim, named.notes) == ("reference", [])


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_a_traced_program_is_written_at_any_opset(
    opset: int, path: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    require_opset(18)
    written = onnx_compat.convert(path, tmp_path / "o.onnx", shim="onnx", opset=opset, values={}, verify=True)
    result = onnx.load(str(written))
    onnx.checker.check_model(result)
    assert [entry.version for entry in result.opset_import if not entry.domain] == [opset]
    assert run(["convert", path, str(tmp_path / "p.onnx"), "--shim", "onnx", "--opset", str(opset)]) == 0
    assert onnx.load(str(tmp_path / "p.onnx")).opset_import[0].version == opset
    feed = {"x": np.linspace(-1, 1, 96, dtype=np.float32).reshape(2, 48)}
    got, want = (onnx_compat.run(source, feed, shim="reference")[0] for source in (written, path))
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_a_traced_program_has_an_ir_version_and_no_other_option(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    require_opset(18)
    written = onnx_compat.convert(path, tmp_path / "o.onnx", shim="onnx", opset=9, ir_version=3)
    assert onnx.load(str(written)).ir_version == 3
    for options, text in (
        ({"opset": 0}, "no opset 0"),
        ({"opset": 13, "ir_version": 99}, "newer than this release knows"),
        ({"opset": 13, "simplify": True}, "'simplify' is for the nodes of the model"),
        ({"external_data": "o.data"}, "'external_data' is for the nodes of the model"),
    ):
        with pytest.raises(OnnxCompatError, match=text):
            onnx_compat.convert(path, tmp_path / "p.onnx", shim="onnx", **options)  # type: ignore[arg-type]
    assert run(["convert", path, str(tmp_path / "p.onnx"), "--shim", "onnx", "--simplify"]) == 2
    assert "--simplify is for the nodes of MODEL" in capsys.readouterr().err
    assert not (tmp_path / "p.onnx").exists()


def test_a_path_that_cannot_be_written_is_refused_first(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "retarget_in_place", lambda *_: pytest.fail("work was done"))
    with pytest.raises(InputError, match="would overwrite a file that is read"):
        onnx_compat.convert(path, path, opset=13)
