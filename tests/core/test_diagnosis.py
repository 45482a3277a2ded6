"""Diagnosis of frameworks that do not work: the reason in one line, the cause, and the remedy."""

import sys
from pathlib import Path
from typing import Any, Callable, List, Optional

import numpy as np
import pytest

from onnx_compat.discovery import diagnosis
from onnx_compat.discovery.diagnosis import diagnose, error_line, import_error_text
from onnx_compat.discovery.environment import distribution_of, find_module, folder_without_code, install_command
from onnx_compat.discovery.offers import Offer
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import float32
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

Install = Callable[..., None]


@pytest.fixture(name="install")
def _install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Return a function that installs a package into a folder of the path. It is never imported."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(
        module: str, distribution: str = "", version: str = "1.2.3", has_code: bool = True, record: str = ""
    ) -> None:
        (tmp_path / module).mkdir()
        if has_code:
            (tmp_path / module / "__init__.py").write_text("raise SystemExit('it was imported')")
        if distribution:
            folder = tmp_path / ("%s-%s.dist-info" % (distribution, version))
            folder.mkdir()
            (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (distribution, version))
            (folder / "RECORD").write_text("%s/__init__.py,,\n%s" % (module, record))

    return install


EXECUTION_ERROR = """Graph execution error:

  File "model.py", line 5, in <module>

indices[0] = 7 is not in [0, 2)
\t [[{{node g/GatherV2}}]] [Op:__inference_run_2]"""


# -- the line that states the cause ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n  first \n second", "first"),
        ("ValueError: a\nKeyError: b", "ValueError: a"),
        ("Traceback (most recent call last):\n  File\nValueError: a\n\nImportError: b\nsee the site", "ImportError: b"),
        ("Traceback (most recent call last):\n  File", "Traceback (most recent call last):"),
        ("Graph execution error:", "Graph execution error:"),
        (EXECUTION_ERROR, "indices[0] = 7 is not in [0, 2)"),
        ("\x1b[1mThe kernel is too large.\x1b[0m\n\nArguments:", "The kernel is too large."),
    ],
)
def test_the_line_of_an_error(text: str, line: str) -> None:
    assert error_line(text) == line


def test_a_primitive_that_a_framework_refuses_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    class FrameworkError(Exception):
        pass

    def fail(*_: Any) -> Any:
        raise FrameworkError(EXECUTION_ERROR)

    monkeypatch.setattr(type(SHIM.emitter()), "add", fail)
    program = record_program(lambda x: [x + x], [Port("x", float32, (2,))], SHIM.emitter())
    with pytest.raises(UnsupportedError, match=r"'add': FrameworkError: indices\[0\] = 7 is not in"):
        SHIM.compile(program).run([np.ones(2, np.float32)])


def test_an_exception_is_named_once() -> None:
    assert import_error_text(ImportError("libx.so: cannot open")) == "ImportError: libx.so: cannot open"
    assert import_error_text(ImportError("ValueError: inner")) == "ValueError: inner"


# -- installed packages ------------------------------------------------------------------------------------------------
def test_a_distribution_is_found_by_its_module(install: Install) -> None:
    install("frame_work", "frame_work_cpu")
    distribution = distribution_of("frame_work")
    assert distribution is not None and str(distribution) == "frame-work-cpu 1.2.3"
    assert distribution_of("frame_wor") is None


def test_a_folder_without_code_is_found(install: Install, tmp_path: Path) -> None:
    install("hollow", has_code=False)
    install("solid")
    assert folder_without_code("hollow") == str(tmp_path / "hollow")
    assert folder_without_code("solid") is None
    assert folder_without_code("no_such_module") is None
    assert find_module("no_such_module.child") is None


# -- remedies ----------------------------------------------------------------------------------------------------------
def check(outcome: Any, remedy: str, cause: str = "") -> None:
    reason, advice = outcome
    assert advice is not None and remedy in advice, advice
    assert reason.endswith("(%s)" % cause) if cause else not reason.endswith(")"), reason


def test_an_unknown_failure_has_no_remedy() -> None:
    assert diagnose("other", "it is broken\nand more") == ("it is broken", None)


def test_an_import_error_of_an_installed_framework_is_shown_by_importing_it(install: Install) -> None:
    install("framework")
    reason = "it cannot be imported: OSError: odd"
    check(diagnose("other", reason, ["missing", "framework"]), "-c 'import framework'` shows all of the error")
    assert diagnose("other", reason, ["missing"]) == (reason, None)


def test_a_framework_without_code_is_installed_again(install: Install, tmp_path: Path) -> None:
    install("hollow", "hollow_dist", has_code=False)
    cause = "there is no code in %s" % (tmp_path / "hollow")
    reason = "module 'hollow' has no attribute 'Session'"
    check(diagnose("other", reason), "pip install --force-reinstall --no-deps 'hollow-dist==1.2.3'", cause)


def test_a_folder_that_no_package_owns_is_deleted(install: Install, tmp_path: Path) -> None:
    install("hollow", has_code=False)
    folder = tmp_path / "hollow"
    remedy = "delete %s, which no installed package owns" % folder
    check(diagnose("other", "No module named 'hollow.core'"), remedy, "there is no code in %s" % folder)


def test_a_module_that_no_package_owns_is_installed_again(install: Install) -> None:
    install("solid")
    check(diagnose("other", "cannot import name 'x' from 'solid.core'"), "install solid again")


@pytest.mark.parametrize(
    ("shim", "module", "remedy"),
    [
        ("keras", "tensorflow", "pip install 'onnx-compat[keras]', or set KERAS_BACKEND"),
        ("keras", "jax", "pip install 'onnx-compat[keras-jax]', or set KERAS_BACKEND"),
        ("other", "flatbuffers", "install the package that has the module flatbuffers"),
    ],
)
def test_a_missing_module(monkeypatch: pytest.MonkeyPatch, shim: str, module: str, remedy: str) -> None:
    monkeypatch.setattr(diagnosis, "find_module", lambda name: None)
    monkeypatch.setattr(diagnosis, "distribution_of", lambda name: None)
    check(diagnose(shim, "No module named '%s.python'" % module), remedy)


def test_the_missing_module_of_an_installed_framework_names_the_framework(install: Install) -> None:
    install("framework", "framework")
    outcome = diagnose("other", "No module named 'no_such_part'", ["framework"])
    check(outcome, "the module no_such_part, which framework 1.2.3 should have brought")


def test_a_missing_framework_is_installed_with_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "find_module", lambda name: None)
    monkeypatch.setattr(diagnosis, "distribution_of", lambda name: None)
    monkeypatch.setattr(diagnosis, "install_command", lambda name: "pip install it")
    assert diagnose("tf2", "No module named 'tensorflow'")[1] == "pip install it"
    monkeypatch.setattr(diagnosis, "install_command", lambda name: None)
    check(
        diagnose("tf2", "tensorflow is not installed"),
        "use another Python: its framework has wheels for Python 3.7 to 3.",
    )
    assert diagnose("other", "it is not installed")[1] is None


def test_the_extra_of_a_shim_on_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    python = ("%d.%d" % sys.version_info[:2],)
    offers = [Offer("x-cpu", "x", "f", "1.2", python), Offer("x-gpu", "x", "f", "1.3", python)]
    monkeypatch.setattr("onnx_compat.discovery.environment.OFFERS", offers)
    assert install_command("x") == "pip install 'onnx-compat[x-gpu]'"
    assert install_command("y") is None
    offers[:] = [offer._replace(minor="") for offer in offers]
    assert install_command("x") == "pip install 'onnx-compat[x-cpu]', or its [x-gpu]"


@pytest.mark.parametrize(
    ("offers", "remedy"),
    [
        ([("x-old", "framework", "1.2")], "pip install 'onnx-compat[x-old]', which brings the one that fits"),
        ([("x", "framework", ""), ("x-new", "framework", "2.0")], "install the older numpy that it was built for"),
    ],
)
def test_a_package_that_is_too_new(
    install: Install, monkeypatch: pytest.MonkeyPatch, offers: List[Any], remedy: str
) -> None:
    install("framework", "framework")
    known = [Offer(extra, "other", name, minor, ()) for extra, name, minor in offers]
    monkeypatch.setattr(diagnosis, "offers", lambda shim: known)
    reason, advice = diagnose("other", "ImportError: numpy.core.umath failed to import", ["framework"])
    assert advice == remedy
    assert "is too new for framework 1.2.3" in reason


def test_a_package_that_is_too_new_for_an_unknown_framework() -> None:
    reason, advice = diagnose("other", "numpy.dtype size changed", ["no_such_framework"])
    assert "is too new for it" in reason and advice == "install the older numpy that it was built for"


@pytest.mark.parametrize(
    ("record", "remedy"),
    [
        ("framework/lib/libx.so.2,,\n", "pip install --force-reinstall --no-deps 'framework==1.2.3'"),
        ("framework/lib/libxx.so.2,,\n", "install the system's package that has libx.so.2 in it"),
    ],
)
def test_a_missing_library(install: Install, record: str, remedy: str) -> None:
    """A library that a distribution should have is installed with it; any other is one of the system."""
    install("framework", "framework", record=record)
    check(diagnose("other", "libx.so.2: cannot open shared object file", ["framework"]), remedy)


@pytest.mark.parametrize(("installed", "remedy"), [(True, "'framework==1.2.3'"), (False, None)])
def test_an_undefined_symbol(install: Install, installed: bool, remedy: Optional[str]) -> None:
    if installed:
        install("framework", "framework")
    reason, advice = diagnose("other", "x.so: undefined symbol: abc", ["framework"])
    assert reason == "x.so: undefined symbol: abc"
    assert remedy in str(advice) if remedy else advice is None


def test_a_back_end_that_is_missing() -> None:
    check(diagnose("keras", "Unable to import backend : torch"), "set KERAS_BACKEND to tensorflow, jax or torch")
    assert diagnose("other", "Unable to import backend : torch", ["no_such_framework"])[1] is None


def test_a_process_that_ended_in_a_package_names_its_distribution(install: Install) -> None:
    install("framework", "framework_cpu")
    where = "its probe kills the process: SIGILL in /x/site-packages/framework/__init__.py"
    check(diagnose("other", where), "a build of framework-cpu 1.2.3 that is made for this processor")
    check(diagnose("other", "its probe kills the process: SIGILL", ["none"]), "install a build of the framework that")
