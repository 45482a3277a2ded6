"""`python -m matrix.suites fetch light simple --onnx 1.23.2=28` fills the cache of cases; `list` lists its contents."""

from __future__ import annotations

import argparse
import sys
from typing import Dict, List, Optional

from matrix.suites.cache import cache_dir, read_index
from matrix.suites.fetch import LIGHT_RANDOM, fetch
from matrix.suites.recorded import SUITES
from matrix.suites.wheels import FetchError


def main(arguments: Optional[List[str]] = None) -> int:
    """Fetch suites into the cache, or list the cached suites. Return 1 if a release cannot be fetched, else 0."""
    parser = argparse.ArgumentParser(prog="python -m matrix.suites", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="download onnx wheels and write their cases into the cache")
    fetching.add_argument("suites", nargs="+", choices=[*SUITES, LIGHT_RANDOM])
    fetching.add_argument(
        "--onnx", action="append", required=True, metavar="VERSION=OPSET", help="a release; repeatable, in order"
    )
    commands.add_parser("list", help="list the suites in the cache, by release")
    options = parser.parse_args(arguments)
    if options.command == "list":
        return _list_cache()
    releases = dict(entry.split("=") for entry in options.onnx)
    try:
        fetch(options.suites, {release: int(opset) for release, opset in releases.items()}, print)
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _list_cache() -> int:
    print(cache_dir())
    for index in sorted(cache_dir().glob("*/index.json")):
        rows = read_index(index.parent.name)
        counted: Dict[str, List[int]] = {}
        for row in rows:
            count = counted.setdefault(row.release, [0, 0])
            count[0] += 1
            count[1] += row.folder == row.id
        for release, (cases, stored) in counted.items():
            print(f"{index.parent.name:20} {release:10} {cases:5} cases, {stored} stored here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
