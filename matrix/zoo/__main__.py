"""`python -m matrix.zoo generate [name ...]`: export the networks of the zoo into the cache."""

from __future__ import annotations

import argparse
import sys
import traceback
from typing import Dict, List, Optional

from matrix.suites.cache import Case, read_index, write_case, write_index
from matrix.zoo.catalog import Model, catalog
from matrix.zoo.condition import build_conditioned
from matrix.zoo.export import ATOL, RTOL, export, record, variants

_RELEASE = "generated"


def main(arguments: Optional[List[str]] = None) -> int:
    """Export the networks into the cache. Return 1 if an export failed, else 0.

    Without `--keep-going`, the error of the first failed export is raised.
    """
    parser = argparse.ArgumentParser(prog="python -m matrix.zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    generating = commands.add_parser("generate", help="export the models into the cache")
    generating.add_argument("names", nargs="*", help="names of models; all models without a name")
    generating.add_argument("--size", choices=("small", "full", "both"), default="both")
    generating.add_argument("--keep-going", action="store_true", help="report an export that fails and continue")
    options = parser.parse_args(arguments)
    failed = 0
    for model in catalog():
        wanted = not options.names or model.name in options.names
        if wanted and options.size in ("both", "full" if model.full else "small"):
            failed += _generate(model, options.keep_going)
    return 1 if failed else 0


def _generate(model: Model, keep_going: bool) -> int:
    """Write all exports of a network into the cache. Return the number of failed exports.

    Unless `keep_going`, the error of the first failed export is raised, and the index is not written.
    """
    suite = "zoo-full" if model.full else "zoo"
    known: Dict[str, str] = {row.hash: row.folder for row in read_index(suite) if not row.name.startswith(model.name)}
    calibration = {name: max(8, values[0]) if name == "batch" else values[0] for name, values in model.sizes.items()}
    network = build_conditioned(model.name, model.build, model.sample(calibration, "calibration"))
    cases: List[Case] = []
    failed = 0
    for variant in variants(model):
        name = "%s-%s" % (model.name, variant.name)
        try:
            content = export(model, network, variant)
            sets = record(model, network, variant, content)
        except Exception:
            if not keep_going:
                raise
            failed += 1
            print("%s/%s: %s" % (suite, name, traceback.format_exc(limit=-1)), file=sys.stderr, flush=True)
            continue
        tags = ["dynamic"] if variant.dynamic else []
        cases.append(write_case(suite, _RELEASE, name, content, sets, known, RTOL, ATOL, tags))
        print("%s: %d data sets, %d bytes" % (cases[-1].id, len(sets), len(content)), flush=True)
    write_index(suite, cases)
    return failed


if __name__ == "__main__":
    sys.exit(main())
