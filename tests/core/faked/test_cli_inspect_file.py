import json
import re

import pytest

from onnx_compat.discovery import selection
from onnx_compat.errors import InvalidModelError, ShimError
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.description import Description
from onnx_compat.shim.interface import Compiled, Port, Probe, Shim


class Plain(Shim):
    """A fake shim that can only list the inputs and outputs of its files."""

    name = "plain"
    formats = {"folder": ("", "a folder of Plain's")}
    works = True

    def probe(self):
        return Probe(self.works, "there" if self.works else "its framework is not installed")

    def emitter(self):
        raise NotImplementedError

    def compile(self, program, device=None):
        raise NotImplementedError

    def load_converted(self, path, form):
        return Compiled, (Port("x", DType.of("float32"), ("batch", 3)),), (Port("y", DType.of("int8"), (2,)),)


class Describing(Plain):
    name = "describing"
    formats = {"tflite": (".tflite", "a file of Describing's")}

    def describe(self, path, form):
        if "broken" in path:
            raise InvalidModelError("it is cut short")
        facts = {"format": form, "bytes": 12, "nothing": None, "left": {"A_B": 2}, "scale": 0.1234567891}
        rows = [{"name": "bad\x1b[31m\nname", "count": 3, "shape": [1, -1], "void": ""}]
        return Description(facts, {"operator_counts": rows, "metadata": []})


@pytest.fixture
def shims(monkeypatch):
    readers = {"plain": Plain(), "describing": Describing()}
    monkeypatch.setattr(selection, "installed_shims", lambda: readers)
    monkeypatch.setattr(selection, "_LOADED", dict(readers, reference=selection.find("reference")))
    monkeypatch.setattr(selection, "_PROBED", {})
    return readers


def test_a_shim_describes_its_file(command, shims, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(b"x")
    code, out, _ = command("inspect", path)
    assert code == 0
    assert re.search(r"^shim +describing$", out, re.MULTILINE)
    assert re.search(r"^left +A_B 2$", out, re.MULTILINE)
    assert re.search(r"^scale +0.123457$", out, re.MULTILINE)
    assert "nothing" not in out
    assert re.search(r"operator counts\nname +count +shape\n", out)
    assert "\x1b" not in out
    assert r"bad\x1b[31m\nname" in out
    document = json.loads(command("inspect", path, "--json")[1])
    assert (document["ok"], document["shim"], document["bytes"], document["metadata"]) == (True, "describing", 12, [])
    assert document["operator_counts"][0]["name"] == "bad\x1b[31m\nname"


def test_a_plain_shim_lists_inputs_and_outputs(command, shims, tmp_path):
    path = tmp_path / "m"
    path.mkdir()
    code, out, _ = command("inspect", path)
    assert code == 0
    assert re.search(r"^input +x +float32 +\[batch, 3\]$", out, re.MULTILINE)
    assert re.search(r"^output +y +int8 +\[2\]$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "works", "code", "text"),
    [
        ("broken.tflite", True, 3, "cut short"),
        ("absent.tflite", True, 6, "no file or folder"),
        ("folder", False, 5, "its framework is not installed"),
        ("m.keras", True, 3, "is no .keras file"),
    ],
)
def test_files_that_cannot_be_described(command, shims, tmp_path, name, works, code, text):
    shims["plain"].works = works
    if name == "folder":
        (tmp_path / name).mkdir()
    elif "absent" not in name:
        (tmp_path / name).write_bytes(b"x")
    got, out, err = command("inspect", tmp_path / name)
    assert (got, out) == (code, "")
    assert text in err


def test_a_plain_shim_does_not_look_inside(shims):
    from onnx_compat.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="plain cannot look inside"):
        shims["plain"].look_inside("m", "folder")
    shims["plain"].works = False
    with pytest.raises(ShimError):
        shims["plain"].describe("m", "folder")
