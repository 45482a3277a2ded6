"""The results of runs as the page has them: a case is its index in the file of cases, not its name."""

from __future__ import annotations

from typing import Any

from matrix.scoreboard.cases import Known, groups
from matrix.scoreboard.gather import Run

__all__ = ["Packer"]


class Packer:
    """Packs runs, and keeps the files of cases that they name.

    `cases`: digest -> the cases in the form that `groups` returns.
    """

    def __init__(self) -> None:
        """Start without files of cases."""
        self.cases: dict[str, dict[str, dict[str, list[str]]]] = {}
        self._index: dict[str, dict[str, int]] = {}

    def pack(self, run: Run) -> dict[str, Any]:
        """Return the results of a run as a dict in which cases are indices. Empty: the run has no cases.

        - `counts`, `natives`: as stored
        - `only` or `absent`: the cases of the run, or those that it does not have; without both, it has all
        - `cases`: the digest of its file of cases
        - `missed`: a list of [outcome, detail, variant -> cases]; the variant "" is the case as recorded
        """
        if not run.outcomes():
            return {}
        digest = str(run.small["cases"])
        index = self._add(digest, run.cases)
        small: dict[str, Any] = {name: run.small[name] for name in ("counts", "natives") if name in run.small}
        for name in ("only", "absent"):
            if name in run.small:
                small[name] = self._indices(index, run.small[name]).get("", [])
        missed = [[row["outcome"], row["detail"], self._indices(index, row["cases"])] for row in run.small["missed"]]
        return {**small, "cases": digest, "missed": missed}

    def _add(self, digest: str, cases: dict[str, Known]) -> dict[str, int]:
        """Keep the file of cases with this digest. Return id -> index of each case in it."""
        if digest not in self.cases:
            self.cases[digest] = groups(cases)
            ids = (
                f"{group}/{name}"
                for group, kinds in self.cases[digest].items()
                for names in kinds.values()
                for name in names
            )
            self._index[digest] = {id: k for k, id in enumerate(ids)}
        return self._index[digest]

    @staticmethod
    def _indices(index: dict[str, int], by_group: dict[str, list[str]]) -> dict[str, list[int]]:
        """Return variant -> the indices of its cases, from `suite/release@variant` -> names."""
        indices: dict[str, list[int]] = {}
        for group, names in by_group.items():
            recorded, _, variant = group.partition("@")
            indices.setdefault(variant, []).extend(index[f"{recorded}/{name}"] for name in names)
        return indices
