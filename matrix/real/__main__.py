"""`python -m matrix.real --python PATH [--record] [NETWORK ...]`: fetch, convert, verify and measure, one after the other."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.process import Child, ChildError
from matrix.data import ROOT
from matrix.real.catalog import Network, networks
from matrix.real.fetch import files
from matrix.real.measure import measured
from matrix.real.page import MEASURED, PAGE, page, stored, table
from matrix.suites.wheels import FetchError

_PACKAGES = ["onnx-compat", "ai-edge-litert", "onnxruntime", "onnx", "numpy"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m matrix.real", description=__doc__)
    parser.add_argument("--python", required=True, help="the interpreter of the environment that converts and runs")
    parser.add_argument("--record", action="store_true", help=f"store what was found, and render {PAGE}")
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="of [real.networks]; all, if none is named")
    options = parser.parse_args(arguments)
    known = {each.name: each for each in networks()}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in options.names or known]
    found = {each.name: _one(each, options.python) for each in chosen}
    print("\n".join(table(chosen, found)))
    if options.record:
        _record(found, options.python, list(known))
    failed = [name for name, one in found.items() if "failed" in one]
    print(f"{len(found) - len(failed)} of {len(found)} networks converted and within the tolerance")
    return 1 if failed else 0


def _one(network: Network, python: str) -> dict[str, Any]:
    """What became of a network; under `failed`, in a line, why not more."""
    print(f"{network.name} ...", flush=True)
    wanted = [network.onnx, *([network.tflite] if network.tflite else [])]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            one = measured(network, files(network.package, wanted), python, Path(scratch))
    except (ChildError, FetchError) as error:
        print(error, file=sys.stderr)
        return {"failed": str(error).splitlines()[0]}
    return one if one["ours"]["ok"] else {**one, "failed": one["said"]}


def _record(found: dict[str, Any], python: str, order: list[str]) -> None:
    before = stored()["networks"] if MEASURED.exists() else {}
    with Child("versions", python) as child:
        versions = child.call("versions", names=_PACKAGES)
    merged = {**before, **found}
    document = {"versions": versions, "networks": {name: merged[name] for name in order if name in merged}}
    MEASURED.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n", encoding="utf-8")
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
    print(f"wrote {MEASURED.relative_to(ROOT)} and {PAGE}")


if __name__ == "__main__":
    sys.exit(main())
