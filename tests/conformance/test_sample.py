"""The choice of a sample: it has fewer cases, and a case for each version of an operator."""

from typing import Any, Dict, List, NamedTuple, Set, Tuple

from matrix.harness import select

VARIANTS = ("recorded", "unknown-dims", "composed")


class Row(NamedTuple):
    """A row of an index, without its files."""

    suite: str
    release: str
    name: str
    operators: List[str]
    tags: Tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return "%s/%s/%s" % (self.suite, self.release, self.name)


def sample(rows: List[Row], *natives: str) -> Dict[str, List[str]]:
    """Return variant -> the names of the cases in a sample of all variants."""
    chosen = [select.Chosen(row, [row.id], variant) for variant in VARIANTS for row in rows]
    names: Dict[str, List[str]] = {variant: [] for variant in VARIANTS}
    for entry in select.sample(chosen, lambda case: case.operators, lambda: set(natives)):
        names[entry.variant].append(entry.case.name)
    return names


def test_the_newest_release_and_each_version_of_an_operator() -> None:
    rows = [
        Row("node", "1.2", "old_relu", ["Relu-1"]),
        Row("node", "1.2", "old_abs", ["Abs-6"]),
        Row("node", "1.3", "older_abs_again", ["Abs-6"]),
        Row("node", "1.4", "relu", ["Relu-14"]),
        Row("node", "1.4", "relu_again", ["Relu-14"]),
    ]
    expected = ["old_relu", "older_abs_again", "relu", "relu_again"]
    assert sample(rows, "Relu-1", "Relu-14", "Abs-6") == dict.fromkeys(VARIANTS, expected)


def test_networks_have_random_weights_in_one_variant() -> None:
    rows = [Row("light", "1.4", "recorded", ["Relu-14"]), Row("light-random", "1.4", "random", ["Relu-14"])]
    other_variants = {"unknown-dims": ["recorded"], "composed": ["recorded"]}
    assert sample(rows, "Relu-14") == {"recorded": ["random"], **other_variants}
    assert sample(rows[:1], "Relu-14") == {"recorded": ["recorded"], **other_variants}


def test_composed_cases_have_a_native_operator() -> None:
    rows = [Row("node", "1.4", "lstm", ["LSTM", "Relu"]), Row("node", "1.4", "relu", ["Relu"])]
    assert sample(rows, "LSTM", "GRU")["composed"] == ["lstm"]
    assert sample(rows)["composed"] == []
    assert sample(rows)["recorded"] == ["lstm", "relu"]


def test_natives_are_not_asked_for_without_composed_cases() -> None:
    def fail() -> Set[str]:
        raise AssertionError

    row = Row("node", "1.4", "relu", ["Relu"])
    chosen = [select.Chosen(row, [row.id], "recorded")]
    assert select.sample(chosen, lambda case: case.operators, fail) == chosen


def test_a_case_with_several_operators_is_left_out_if_one_case_before_has_them() -> None:
    rows = [
        Row("node", "1.3", "older", ["Abs", "Add", "Mul"]),
        Row("node", "1.4", "single", ["Add"]),
        Row("node", "1.4", "part of an older one", ["Abs", "Mul"]),
        Row("node", "1.4", "other", ["Add", "Relu"]),
        Row("node", "1.4", "equal", ["Relu", "Add"]),
        Row("node", "1.4", "in two others", ["Abs", "Relu"]),
        Row("node", "1.4", "single again", ["Add"]),
        Row("node", "1.4", "dynamic", ["Add", "Relu"], ("dynamic",)),
        Row("simple", "1.4", "other suite", ["Add", "Relu"]),
    ]
    names = [row.name for row in rows[1:]]
    assert sample(rows)["recorded"] == names
    assert sample(rows)["unknown-dims"] == [name for name in names if name != "equal"]
    networks = [row._replace(suite="light-random") for row in rows[1:5]]
    assert sample(networks)["recorded"] == ["single", "part of an older one", "other"]


def test_the_sample_of_the_cache_has_each_version_of_an_operator(rows: List[Any]) -> None:
    """Cases of `light-random` are left out: other variants have its graphs in `light`."""
    chosen = [entry for entry in select.distinct(rows, VARIANTS[:2]) if entry.case.suite != "light-random"]
    sampled = select.sample(chosen, versions_of, set)
    assert versions_by_run(sampled) == versions_by_run(chosen)
    assert len(sampled) < len(chosen) or not rows


def versions_by_run(chosen: List[select.Chosen]) -> Dict[Tuple[str, str], Set[str]]:
    """Return (suite, variant) -> the versions of the operators in its cases."""
    versions: Dict[Tuple[str, str], Set[str]] = {}
    for case, _, variant in chosen:
        versions.setdefault((case.suite, variant), set()).update(versions_of(case))
    return versions


def versions_of(case: Any) -> List[str]:
    return ["%s of opset %d" % (operator, case.opset[operator.rpartition("::")[0]]) for operator in case.operators]
