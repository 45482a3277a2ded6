"""Declared gaps of a shim, as data. A gap that is closed fails the test that it covers.

[[gap]]                                  # tests/gaps/primitives-<shim>.toml
primitives = ["take", "top_k"]           # exact names
dtypes = ["uint32", "uint64"]            # exact names
sizes = "any"                            # "fixed" or "symbolic": the gap covers only these sizes
when = ["tflite-runtime<2.13"]           # any of these conditions: see matrix/harness/conditions.py; ["*"]: everywhere
kind = "framework"                       # ours: can be done here; framework: it cannot; never: has no meaning
exception = "UnsupportedError"           # the exact class, or "Mismatch" for a wrong result
reason = "..."
"""

import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from cases.making import CASES, dtypes_of
from matrix.harness.conditions import Installed, holds


class Gap(NamedTuple):
    primitives: List[str]
    dtypes: List[str]
    sizes: str
    when: List[str]
    kind: str
    exception: str
    reason: str

    def excuses(self, symbolic: bool, error: BaseException) -> bool:
        there = {"any": True, "fixed": not symbolic, "symbolic": symbolic}[self.sizes]
        return there and type(error).__name__ == self.exception


def load(path: Path) -> List[Gap]:
    """Return the gaps that a file declares. Empty: there is no such file.

    Raise an error for an unknown primitive or dtype.
    """
    if not path.exists():
        return []
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    entries: List[Dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("gap", [])
    gaps = [Gap(**entry) for entry in entries]
    for gap in gaps:
        assert gap.kind in ("ours", "framework", "never") and gap.sizes in ("any", "fixed", "symbolic"), gap
        assert gap.reason.strip() and gap.when, gap
        for name in gap.primitives:
            tried = {dtype.name for dtype in dtypes_of(name)} if name in CASES else set()
            assert set(gap.dtypes) <= tried, "%s: a stale gap: %s is not tried with %s" % (path.name, name, gap.dtypes)
    return gaps


def find(gaps: List[Gap], primitive: str, dtype: str, environment: Optional[Installed] = None) -> Optional[Gap]:
    """Return the gap of a primitive and a dtype in an environment (by default, this one), or None.

    Raise an error if two gaps cover it.
    """
    matches = [
        gap for gap in gaps if primitive in gap.primitives and dtype in gap.dtypes and holds(gap.when, environment)
    ]
    assert len(matches) < 2, "%s of %s is declared %d times" % (primitive, dtype, len(matches))
    return matches[0] if matches else None
