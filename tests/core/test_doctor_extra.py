"""`onnx-compat doctor --extra NAME` and the hints of errors say in words which Pythons an extra is for."""

import json
import sys
from types import SimpleNamespace
from typing import Any, List, Tuple

import click
import pytest

from onnx_compat.cli import doctor_abilities, doctor_extra, main
from onnx_compat.cli.doctor_extra import describe_extra
from onnx_compat.discovery import environment, selection
from onnx_compat.discovery.environment import other_python_hint, python_range
from onnx_compat.discovery.offers import ALIASES, OFFERS, Offer
from onnx_compat.errors import ShimError


def pretend(monkeypatch: pytest.MonkeyPatch, version: Tuple[int, int]) -> None:
    """Let the modules under test see another version of Python."""
    pretended = SimpleNamespace(version_info=(*version, 0), path=sys.path)
    importlib_metadata = environment.metadata()
    monkeypatch.setattr(environment, "metadata", lambda: importlib_metadata)
    for module in (doctor_extra, environment):
        monkeypatch.setattr(module, "sys", pretended)


@pytest.mark.parametrize(
    ("python", "name", "reason", "hint"),
    [
        ((3, 12), "tf2-8", "tensorflow 2.8 has wheels for Python 3.7 to 3.10, not for Python 3.12",
         "use Python 3.7 to 3.10, or pip install 'onnx-compat[tf2-16]'"),
        ((3, 12), "tf2-8-cpu", "tensorflow-cpu 2.8 has wheels for Python 3.7 to 3.10, not for Python 3.12",
         "use Python 3.7 to 3.10, or pip install 'onnx-compat[tf2-16-cpu]'"),
        ((3, 12), "tf2-8-probability", "tensorflow 2.8 has wheels for Python 3.7 to 3.10, not for Python 3.12",
         "use Python 3.7 to 3.10, or pip install 'onnx-compat[tf2-16]'"),
        ((3, 8), "tf2-21", "tensorflow 2.21 has wheels for Python 3.10 to 3.13, not for Python 3.8",
         "use Python 3.10 to 3.13, or pip install 'onnx-compat[tf2-13]'"),
        ((3, 10), "keras3-15-jax", "keras 3.15 has wheels for Python 3.11 to 3.14, not for Python 3.10",
         "use Python 3.11 to 3.14"),
        ((3, 12), "tf1", "tensorflow has wheels for Python 3.7, not for Python 3.12", "use Python 3.7"),
    ],
)  # fmt: skip
def test_another_python_is_named(
    monkeypatch: pytest.MonkeyPatch, python: Tuple[int, int], name: str, reason: str, hint: str
) -> None:
    pretend(monkeypatch, python)
    report = describe_extra(name)
    assert (report.name, report.available, report.reason, report.hint) == (name, False, reason, hint)


def test_an_extra_for_this_python_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, (3, 12))
    report = describe_extra("keras3-jax")
    assert report.available
    assert report.hint == "pip install 'onnx-compat[keras3-jax]'"
    assert report.reason == "keras 3.15 has wheels for Python 3.11 to 3.14"


def test_every_alias_stands_for_an_extra() -> None:
    extras = {offer.extra for offer in OFFERS}
    assert set(ALIASES.values()) <= extras
    assert not set(ALIASES) & extras
    for name in [*extras, *ALIASES]:
        assert describe_extra(name).reason


@pytest.mark.parametrize(("name", "close"), [("tf2-88", "did you mean 'tf2-8'"), ("onnxruntime", "lists them")])
def test_an_unknown_extra_is_a_mistake_of_the_user(name: str, close: str, capsys: Any) -> None:
    with pytest.raises(click.BadParameter, match=close):
        describe_extra(name)
    assert main(["doctor", "--extra", name]) == 2
    assert close in capsys.readouterr().err


@pytest.mark.parametrize(("python", "code"), [((3, 12), 5), ((3, 10), 0)])
def test_doctor_reports_the_extras_that_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, python: Tuple[int, int], code: int
) -> None:
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "reference")
    pretend(monkeypatch, python)
    assert main(["doctor", "--extra", "tf2-8"]) == code
    out = capsys.readouterr().out
    assert "onnx-compat[tf2-8]: tensorflow 2.8 has wheels for Python 3.7 to 3.10" in out
    assert main(["doctor", "--extra", "tf2-8", "--extra", "tf2", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["available"]) for row in document["extras"]] == [("tf2-8", code == 0), ("tf2", True)]
    assert document["ok"] == (code == 0)


@pytest.mark.parametrize(
    ("pythons", "text"),
    [(["3.7"], "3.7"), (["3.9", "3.10"], "3.9 to 3.10"), (["3.7", "3.9"], "3.7, 3.9"), ([], "")],
)
def test_the_range_of_pythons(pythons: List[str], text: str) -> None:
    assert python_range(pythons) == text


def test_an_error_names_the_pythons_of_a_shim_that_is_not_for_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [
        Offer("tf2-1", "tf2", "tensorflow", "2.1", ("2.7",)),
        Offer("tf2-2", "tf2", "tensorflow", "2.2", ("2.6",)),
    ]
    monkeypatch.setattr("onnx_compat.discovery.environment.OFFERS", offers)
    monkeypatch.setattr(selection, "installed_shims", dict)
    this = "%d.%d" % sys.version_info[:2]
    wanted = "use another Python: its framework has wheels for Python 2.6 to 2.7, not for %s" % this
    assert other_python_hint("tf2") == wanted
    with pytest.raises(ShimError) as raised:
        selection._load("tf2")
    assert raised.value.hint == wanted


@pytest.mark.parametrize(
    ("python", "hint"),
    [((3, 7), "use Python %s"), ((3, 12), "pip install 'onnx-compat[quantize]'")],
)
def test_the_quantiser_is_offered_to_the_pythons_of_its_framework(
    python: Tuple[int, int], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_abilities, "sys", SimpleNamespace(version_info=(*python, 0)))
    monkeypatch.setattr(environment, "find_module", lambda name: None)
    (quantizer,) = [row for row in doctor_abilities.list_abilities([]) if row.task.startswith("quantise")]
    newest = [offer for offer in OFFERS if offer.framework == "ai-edge-litert"][-1]
    assert quantizer.hint == (hint % python_range(newest.pythons) if "%s" in hint else hint)
