"""`onnx-compat train`, and the page of curves."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from training_models import classifier, classifier_batch

import onnx_compat
from onnx_compat.cli.app import cli, run
from onnx_compat.training import Progress, Trainer, prepare_training
from onnx_compat.training.curve_page import render_curves

ARGUMENTS = ["train", "m.onnx", "--data", "d.npz", "--shim", "reference", "-o", "out.onnx", "--batch-size", "6"]
LOSS = ["--loss", "softmax_cross_entropy", "--lr", "0.05"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(classifier(), "m.onnx")
    np.savez("d.npz", **classifier_batch())


def test_train_writes_the_model_and_the_page(capfd):
    arguments = [
        *ARGUMENTS,
        *LOSS,
        "--epochs",
        "4",
        "--validation",
        "d.npz",
        "--metric",
        "accuracy",
        "--report",
        "r.html",
    ]
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    losses = [epoch["results"]["loss"] for epoch in document["epochs"]]
    assert len(losses) == 4 and losses[-1] < losses[0] and "accuracy" in document["epochs"][0]["validation"]
    trained = onnx_compat.load("out.onnx")
    assert not trained.proto.training_info
    before, after = (
        onnx_compat.run(model, [classifier_batch()["x"]], shim="reference")[0] for model in ("m.onnx", trained)
    )
    assert not np.allclose(before, after)
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and "<script" not in page and page.count("<tr>") == 5
    assert not Path("out.onnx.checkpoint").exists()


def test_an_interrupted_run_is_resumed(monkeypatch, capfd):
    arguments = [*ARGUMENTS, *LOSS, "--epochs", "3"]
    assert run(arguments) == 0
    whole = onnx_compat.load("out.onnx").graph.initializers["w0"].array().copy()
    step, calls = Trainer.step, []

    def interrupt(self, *given):
        calls.append(given)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return step(self, *given)

    monkeypatch.setattr(Trainer, "step", interrupt)
    assert run(arguments) == 130
    monkeypatch.setattr(Trainer, "step", step)
    assert run([*arguments, "--resume"]) == 0
    np.testing.assert_array_equal(onnx_compat.load("out.onnx").graph.initializers["w0"].array(), whole)


def test_a_model_with_training_information_needs_no_loss(capfd):
    assert run([*ARGUMENTS, *LOSS, "--with-training", "--trainable", "w1", "--initialize"]) == 0
    onnx.save(onnx.load("out.onnx"), "m.onnx")
    steps = prepare_training("m.onnx", shim="reference").state()["training/step"]
    assert run([*ARGUMENTS, "--with-training"]) == 0
    assert prepare_training("out.onnx", shim="reference").state()["training/step"] == 2 * steps


MISTAKES = {
    "no training information": ([], 3, "no training_info"),
    "a loss that does not exist": (["--loss", "cross"], 6, "there is no loss 'cross'"),
    "an option that does not exist": ([*LOSS, "--loss-option", "axs=1"], 6, "has no option 'axs'"),
    "no checkpoint": ([*LOSS, "--resume"], 6, "there is no checkpoint"),
    "the data are overwritten": ([*LOSS, "--report", "d.npz"], 6, "d.npz"),
    "a loss that is not finite": (
        [*LOSS, "--lr", "1e38", "--epochs", "9", "--check-numerics"],
        1,
        "is not finite in step",
    ),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_mistakes_write_nothing(name, capfd):
    arguments, code, message = MISTAKES[name]
    content = Path("d.npz").read_bytes()
    assert run([*ARGUMENTS, *arguments]) == code
    assert message in capfd.readouterr().err and Path("d.npz").read_bytes() == content
    with pytest.raises(onnx_compat.InvalidModelError):
        onnx_compat.load("out.onnx")


def test_the_help_names_the_options():
    text = CliRunner().invoke(cli, ["train", "--help"]).output
    for option in ("--data", "--loss", "--resume", "--check-numerics"):
        assert option in text


def test_curves_of_any_numbers():
    """NaN, a single epoch and equal values are drawn; a name is escaped."""
    for losses in ([1.0], [1.0, 1.0], [float("nan"), 1.0, float("inf")], [float("nan")]):
        epochs = [Progress(k + 1, 1, {"<loss>": loss}, None, True) for k, loss in enumerate(losses)]
        page = render_curves("a < b", epochs)
        assert "&lt;loss&gt;" in page and "<loss>" not in page and "nan " not in page
    assert "<svg" not in render_curves("no epochs", [])
