"""The networks, out of the cache that `nox -s zoo` fills."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.bench import Missing, Network
from benchmarks.process import environment

__all__ = ["NAMES", "networks"]

NAMES = {"resnet50": "ResNet50", "mobilenet_v2": "MobileNetV2"}
"""In the zoo, and in keras.applications."""
SHAPE = (1, 3, 224, 224)
ROOT = Path(__file__).resolve().parent.parent
# The cache is read by its own module; that needs onnx, which the environments have and this process may not.
_LIST = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from matrix.suites.cache import read_index; "
    "print(json.dumps({s + '/' + row.name: str(row.model) for s in ('zoo', 'zoo-full') for row in read_index(s)}))"
)


def networks(names: list[str], python: str) -> list[Network]:
    """`python` is an interpreter that has onnx."""
    done = subprocess.run(
        [python, "-c", _LIST, str(ROOT)], env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    paths: dict[str, str] = json.loads(done.stdout.splitlines()[-1])

    def path(suite: str, name: str) -> Path:
        if f"{suite}/{name}" not in paths:
            raise Missing(f"the model {suite}/{name} is not in the cache: run `nox -s zoo -- --size both`")
        return Path(paths[f"{suite}/{name}"])

    return [
        Network(
            name,
            path("zoo-full", f"{name}-dynamo-fixed"),
            path("zoo-full", f"{name}-script-dynamic"),
            path("zoo", f"{name}-dynamo-fixed"),
            SHAPE,
            NAMES[name],
        )
        for name in names
    ]
