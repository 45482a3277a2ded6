"""The Docker command of docs/howto/tensorflow-serving.md, without Docker: its files, ports and request fit TensorFlow Serving.

How the server of the image is started is in tensorflow/serving, tensorflow_serving/tools/docker/Dockerfile (commit
01f29cbe4606e33efdcff278b8838cfc3ddcaa4f):

    ENV PORT=8501, MODEL_BASE_PATH=/models, MODEL_NAME=model
    tensorflow_model_server --rest_api_port=${PORT} --model_name=${MODEL_NAME} --model_base_path=${MODEL_BASE_PATH}/${MODEL_NAME}
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict
from urllib.parse import urlsplit

import numpy as np
import pytest
import tensorflow as tf

import onnx_compat

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

PAGE = documentation.ROOT / "docs" / "howto" / "tensorflow-serving.md"
PORT, BASE = 8501, "/models"


def test_the_server_would_answer_the_request_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker, curl = commands()
    options = {option: value for option, value in zip(docker, docker[1:]) if option.startswith("-")}
    name = options["-e"].partition("MODEL_NAME=")[2]
    source, _, target = options["-v"].replace("$PWD/", "").partition(":")
    assert (docker[:2], docker[-1]) == (["docker", "run"], "tensorflow/serving")
    assert options["-p"] == "%d:%d" % (PORT, PORT)
    assert target == "%s/%s" % (BASE, name), "the server reads this folder"
    url = urlsplit(curl[-1])
    assert (url.port, url.path) == (PORT, "/v1/models/%s:predict" % name)

    monkeypatch.chdir(tmp_path)
    maker = str(documentation.ROOT / "examples" / "make_model.py")
    subprocess.run([sys.executable, maker, "digits.onnx"], check=True, stdout=subprocess.DEVNULL)
    (path,) = {
        line.split()[4] for line in lines("console") if line.startswith("$ onnx-compat convert") and source in line
    }
    Path(source).mkdir(parents=True)
    onnx_compat.convert("digits.onnx", path)
    (request_block,) = [
        block.text for block in documentation.blocks(PAGE) if "request.json" in block.text and block.runnable
    ]
    exec(request_block, {})  # noqa: S102 (our own page)
    assert curl[1:3] == ["-d", "@request.json"]
    request = json.loads(Path("request.json").read_text(encoding="utf-8"))

    scores = predict(Path(source), request)
    inputs = {name: np.array(value, np.float32) for name, value in request["inputs"].items()}
    expected = onnx_compat.run("digits.onnx", inputs, shim="reference")["scores"]
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def predict(folder: Path, request: Dict[str, Any]) -> Any:
    """Answer as the server does: the highest version, the tag `serve`, the signature `serving_default`, inputs by name."""
    version = max(int(path.name) for path in folder.iterdir() if re.fullmatch(r"\d+", path.name))
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(folder / str(version)))
        signature = meta.signature_def["serving_default"]
        assert set(request["inputs"]) == set(signature.inputs)
        feeds = {signature.inputs[name].name: np.array(value) for name, value in request["inputs"].items()}
        ((_, output),) = signature.outputs.items()  # the answer has names only if there are several outputs
        return session.run(output.name, feeds)


def commands() -> Any:
    (block,) = [block for block in documentation.blocks(PAGE) if block.reason == "needs Docker"]
    return [shlex.split(line) for line in block.text.splitlines()]


def lines(language: str) -> Any:
    return [
        line for block in documentation.blocks(PAGE) if block.language == language for line in block.text.splitlines()
    ]
