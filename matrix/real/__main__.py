"""Fetch, convert, verify and measure trained networks, one after another.

python -m matrix.real --python PATH [--record] [NETWORK ...]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.process import Child, ChildError
from matrix.data import ROOT
from matrix.real.catalog import Network, load_networks
from matrix.real.fetch import fetch_files
from matrix.real.measure import measure_network
from matrix.real.page import MEASURED, PAGE, load_measured, render_page, render_table
from matrix.suites.wheels import FetchError

_PACKAGES = ["onnx-compat", "ai-edge-litert", "onnxruntime", "onnx", "numpy"]


def main(arguments: list[str] | None = None) -> int:
    """Measure the networks and print the table of results. Return 1 if a network failed."""
    parser = argparse.ArgumentParser(prog="python -m matrix.real", description=__doc__)
    parser.add_argument("--python", required=True, help="the interpreter of the environment that converts and runs")
    parser.add_argument("--record", action="store_true", help=f"store the results, and render {PAGE}")
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="names in [real.networks]; all without a name")
    options = parser.parse_args(arguments)
    known = {network.name: network for network in load_networks()}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"there is no network {', '.join(unknown)}; the networks are {', '.join(known)}")
    chosen = [known[name] for name in options.names or known]
    results = {network.name: _measure_network(network, options.python) for network in chosen}
    print("\n".join(render_table(chosen, results)))
    if options.record:
        _record(results, options.python, list(known))
    failed = [name for name, result in results.items() if "failed" in result]
    print(f"{len(results) - len(failed)} of {len(results)} networks converted and within the tolerance")
    return 1 if failed else 0


def _measure_network(network: Network, python: str) -> dict[str, Any]:
    """Print the name of a network, measure it, and return the results.

    If a step failed or the file is wrong, `failed` holds the first line of the reason.
    """
    print(f"{network.name} ...", flush=True)
    members = [network.onnx, *([network.tflite] if network.tflite else [])]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            result = measure_network(network, fetch_files(network.package, members), python, Path(scratch))
    except (ChildError, FetchError) as error:
        print(error, file=sys.stderr)
        return {"failed": str(error).splitlines()[0]}
    return result if result["ours"]["ok"] else {**result, "failed": result["said"]}


def _record(results: dict[str, Any], python: str, order: list[str]) -> None:
    """Store the results in measured.json beside those of networks that were not measured, and render docs/real.md.

    `python`: the interpreter whose packages the page names. `order`: the names of all networks.
    """
    stored_networks = load_measured()["networks"] if MEASURED.exists() else {}
    with Child("versions", python) as child:
        versions = child.call("versions", names=_PACKAGES)
    merged = {**stored_networks, **results}
    document = {"versions": versions, "networks": {name: merged[name] for name in order if name in merged}}
    MEASURED.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n", encoding="utf-8")
    (ROOT / PAGE).write_text(render_page(), encoding="utf-8")
    print(f"wrote {MEASURED.relative_to(ROOT)} and {PAGE}")


if __name__ == "__main__":
    sys.exit(main())
