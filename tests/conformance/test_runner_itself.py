"""The harness on made-up cases: passes, fallbacks, gaps and failures."""

import json
from pathlib import Path
from typing import Any, Collection, Dict, List, NamedTuple, Optional

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from matrix.harness import gaps, select, tally
from matrix.harness.compare import Mismatch, compare
from matrix.harness.run import FAIL, FALLBACK, GAP, PASS, Retraced, judge, run_case
from matrix.harness.variants import VARIANTS

FLOATS = np.array([1.0, -2.0, np.nan, np.inf, 0.0], np.float32)
GAP_ENTRY = gaps.Gap("s/1/a", ["*"], "framework", "ValueError", "it has no such thing")


class Data(NamedTuple):
    inputs: Dict[str, Any]
    outputs: Dict[str, Any]
    coarse: Collection[str] = ()


class Row(NamedTuple):
    suite: str
    id: str
    hash: str
    rtol: float = 1e-3
    atol: float = 1e-7


@pytest.mark.parametrize(
    "value",
    [
        FLOATS,
        np.array(3, np.int8),
        np.array([True, False]),
        np.array(["a", ""], object),
        np.zeros((0, 3), np.float16),
        np.array([1 + 2j], np.complex64),
        None,
        [],
        [FLOATS, [np.array([1])], None],
        {},
        {"a": np.array(1.5), "b": FLOATS},
    ],
    ids=repr,
)
def test_a_value_equals_itself(value: Any) -> None:
    compare("y", value, value, 0, 0)


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (FLOATS.astype(np.float64), FLOATS),
        (FLOATS[None], FLOATS),
        (np.float32(1), np.array(1, np.float32)),
        (1.0, np.array(1.0)),
        (np.where(np.isnan(FLOATS), np.float32(0), FLOATS), FLOATS),
        (np.where(np.isinf(FLOATS), -FLOATS, FLOATS), FLOATS),
        (np.array([1.1], np.float32), np.array([1.0], np.float32)),
        (np.array([2**53 + 1]), np.array([2**53])),
        (np.array([True]), np.array([False])),
        (np.array(["a"], object), np.array(["b"], object)),
        (np.array(["a"]), np.array(["a"], object)),
        (np.array([1]), None),
        (None, np.array([1])),
        ([np.array([1])], np.array([1])),
        (np.array([1]), [np.array([1])]),
        ((), []),
        ([np.array([1])], []),
        ([np.array([2])], [np.array([1])]),
        (np.array(1.5), {"a": np.array(1.5)}),
        ({"b": np.array(1.5)}, {"a": np.array(1.5)}),
        ({"a": np.array(2.5)}, {"a": np.array(1.5)}),
        ({"a": np.array(1.5, np.float32)}, {"a": np.array(1.5)}),
    ],
    ids=repr,
)
def test_another_value_is_reported(got: Any, wanted: Any) -> None:
    with pytest.raises(Mismatch, match=r"^y"):
        compare("y", got, wanted, 1e-3, 1e-7)


def test_the_tolerance_is_for_floats_only() -> None:
    compare("y", np.array([1.05, 1e-9], np.float16), np.array([1.0, 0.0], np.float16), 0.1, 1e-7)
    with pytest.raises(Mismatch, match=r"1 of 1 elements are wrong, first at \(0,\)"):
        compare("y", np.array([101]), np.array([100]), 0.1, 10)


def test_strings_are_objects_whatever_the_recorded_ones_are() -> None:
    compare("y", np.array(["ab"], object), np.array(["ab"]), 0, 0)


class Case:
    """A made-up case: y = x + 1, with several data sets."""

    model = Path("model.onnx")
    rtol, atol = 1e-3, 1e-7

    def __init__(self, sizes: List[int], tags: Optional[List[str]] = None) -> None:
        self.sizes, self.sets, self.tags = sizes, len(sizes), tags or []

    def data_sets(self) -> Any:
        for size in self.sizes:
            yield Data({"x": np.arange(size)}, {"y": np.arange(size) + 1})


class Runnable:
    def __init__(self, added: float = 1, traced_per_run: int = 0) -> None:
        self.added, self.traced_per_run, self.traces = added, traced_per_run, 1
        self.fallbacks: List[str] = []

    def run(self, inputs: Dict[str, Any]) -> List[Any]:
        self.traces += self.traced_per_run
        return [inputs["x"] + self.added]


def run(case: Case, runnable: Any) -> List[str]:
    prepared: List[Any] = []

    def prepare(model: str, shim: Optional[str]) -> Any:
        prepared.append((model, shim))
        return runnable

    fallbacks = run_case(prepare, case, "some")
    assert prepared == [("model.onnx", "some")], "prepared once, whatever the number of data sets"
    return fallbacks


def test_a_case_runs_all_its_data_sets_on_one_prepared_model() -> None:
    assert run(Case([2, 3]), Runnable()) == []


def test_a_wrong_answer_names_the_data_set() -> None:
    with pytest.raises(Mismatch, match="y of data set 0: 2 of 2 elements"):
        run(Case([2, 3]), Runnable(added=2))


@pytest.mark.parametrize(("off", "right"), [(1.01, True), (1.02, False)])
def test_a_bfloat16_in_any_carrier_may_be_off_by_two_units(off: float, right: bool) -> None:
    class Carried(Case):
        coarse = ("y",)

        def data_sets(self) -> Any:
            yield Data({"x": np.zeros(1)}, {"y": np.ones(1)}, self.coarse)

    class Exact(Carried):
        coarse = ()

    if right:
        assert run(Carried([1]), Runnable(off)) == []
    else:
        with pytest.raises(Mismatch):
            run(Carried([1]), Runnable(off))
    with pytest.raises(Mismatch):
        run(Exact([1]), Runnable(off))


def test_a_missing_output_is_reported() -> None:
    class Silent(Runnable):
        def run(self, inputs: Dict[str, Any]) -> List[Any]:
            return []

    with pytest.raises(Mismatch, match="expected 1 outputs, got 0"):
        run(Case([2]), Silent())


def test_another_size_must_not_trace_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    with pytest.raises(Retraced):
        run(Case([2, 3], ["dynamic"]), Runnable(traced_per_run=1))
    run(Case([2, 3]), Runnable(traced_per_run=1))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    run(Case([2, 3], ["dynamic"]), Runnable(traced_per_run=1))


def test_a_shim_that_counts_no_traces_is_not_asked() -> None:
    class Plain:
        def run(self, inputs: Dict[str, Any]) -> List[Any]:
            return [inputs["x"] + 1]

    assert run(Case([2, 3], ["dynamic"]), Plain()) == []


def test_the_four_outcomes() -> None:
    assert judge(None, [], None)[:2] == (PASS, "")
    assert judge(None, ["node 'a'"], None)[:2] == (FALLBACK, "node 'a'")
    assert judge(ValueError("no\nmore"), [], None)[:2] == (FAIL, "ValueError: no")
    assert judge(ValueError("no"), [], GAP_ENTRY)[:2] == (GAP, "framework: it has no such thing")


@pytest.mark.parametrize("error", [None, KeyError("x"), UnicodeError("a subclass of the declared one")])
def test_a_gap_with_another_reason_fails(error: Optional[Exception]) -> None:
    verdict = judge(error, [], GAP_ENTRY)
    assert verdict.outcome == FAIL
    assert isinstance(verdict.error, gaps.GapError)
    assert "s/1/a" in str(verdict.error)


def test_only_failures_carry_an_error() -> None:
    assert judge(None, ["n"], None).error is None
    assert judge(ValueError(), [], GAP_ENTRY).error is None
    assert judge(ValueError(), [], None).error is not None


def test_gaps_are_found_by_any_id_of_a_case_and_by_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.toml"
    path.write_text(
        '[[gap]]\nid = "s/1/a"\nwhen = ["SOME_VARIABLE=here"]\nkind = "ours"\nexception = "Mismatch"\nreason = "not yet"\n',
        encoding="utf-8",
    )
    declared_gaps = gaps.load_gaps(path)
    assert gaps.find_gap(declared_gaps, ["s/1/a"]) is None
    monkeypatch.setenv("SOME_VARIABLE", "elsewhere")
    assert gaps.find_gap(declared_gaps, ["s/1/a"]) is None
    monkeypatch.setenv("SOME_VARIABLE", "here")
    assert gaps.find_gap(declared_gaps, ["s/2/a", "s/1/a"]) == declared_gaps[0]
    assert gaps.find_gap(declared_gaps, ["s/1/ab"]) is None
    assert gaps.load_gaps(tmp_path / "absent.toml") == []


@pytest.mark.parametrize(
    "entry",
    [
        'id = "s/1/a"',
        'id = "s/1/a"\nwhen = []\nkind = "ours"\nexception = "E"\nreason = "r"',
        'id = "s/1/a"\nwhen = ["*"]\nkind = "mine"\nexception = "E"\nreason = "r"',
        'id = "s/1/a"\nwhen = ["*"]\nkind = "ours"\nexception = "E"\nreason = " "',
    ],
)
def test_a_gap_needs_all_fields(entry: str, tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("[[gap]]\n%s\n" % entry, encoding="utf-8")
    with pytest.raises(gaps.GapError, match="s/1/a"):
        gaps.load_gaps(path)


def test_a_case_is_declared_once() -> None:
    with pytest.raises(gaps.GapError, match="declared 2 times"):
        gaps.find_gap([GAP_ENTRY, GAP_ENTRY._replace(kind="ours")], ["s/1/a"])


def test_a_gap_for_no_case_is_stale_when_its_suite_is_run() -> None:
    declared = [GAP_ENTRY, GAP_ENTRY._replace(id="s/1/gone"), GAP_ENTRY._replace(id="other/1/x")]
    assert gaps.find_stale(declared, {"s/1/a"}, {"s"}) == ["s/1/gone"]
    several = [GAP_ENTRY._replace(id=["s/*/a", "s/*/gone", "s/2/a"])]
    assert gaps.find_stale(several, {"s/1/a"}, {"s"}) == ["s/*/gone", "s/2/a"], "each of them must name a case"


def test_a_gap_may_cover_several_cases_and_all_releases() -> None:
    gap = GAP_ENTRY._replace(id=["s/*/a", "t/1/b"])
    for ids in (["s/1/a"], ["s/1.2.3/a"], ["u/1/a", "t/1/b"]):
        assert gaps.find_gap([gap], ids) == gap
    for ids in (["s/1/ab"], ["t/2/b"], ["s/1/a@composed"]):
        assert gaps.find_gap([gap], ids) is None


def test_a_gap_covers_all_variants_or_the_named_ones(tmp_path: Path) -> None:
    text = '[[gap]]\nid = "s/*/a"\nwhen = ["*"]\nkind = "ours"\nexception = "E"\nreason = "r"\n'
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    (everywhere,) = gaps.load_gaps(path)
    assert all(everywhere.covers(["s/1/a"], variant) for variant in VARIANTS)
    path.write_text(text + 'variants = ["unknown-dims"]\n', encoding="utf-8")
    (there,) = gaps.load_gaps(path)
    assert [variant for variant in VARIANTS if there.covers(["s/1/a"], variant)] == ["unknown-dims"]
    for wrong in ('["other"]', "[]"):
        path.write_text(text + "variants = %s\n" % wrong, encoding="utf-8")
        with pytest.raises(gaps.GapError, match="its variants are"):
            gaps.load_gaps(path)


def test_a_content_runs_once_under_its_newest_id() -> None:
    rows = [Row("s", "s/1/a", "A"), Row("s", "s/1/b", "B"), Row("s", "s/2/a", "A"), Row("s", "s/2/b", "B2")]
    chosen = select.distinct(rows)
    assert sorted(chosen.ids for chosen in chosen) == [["s/1/b"], ["s/2/a", "s/1/a"], ["s/2/b"]]


def test_a_missing_suite_is_an_error() -> None:
    suites = ["light", "simple", "pytorch-converted", "pytorch-operator", "zoo", "node"]
    index = {suite: [k + 1] for k, suite in enumerate(suites)}
    assert sorted(select.choose("", lambda suite: index.get(suite, []))) == [1, 2, 3, 4, 5, 6]
    assert select.choose("simple, light", lambda suite: index[suite]) == [2, 1]
    for suites in ("", "node", "zoo"):
        with pytest.raises(select.NotFetched, match="nox -s"):
            select.choose(suites, lambda _: [])


def test_the_newest_release_of_each_suite() -> None:
    class OfRelease(NamedTuple):
        release: str

    index = {"node": [OfRelease("1.9.0"), OfRelease("1.10.0"), OfRelease("1.10.0")], "zoo": [OfRelease("generated")]}
    assert [row.release for row in select.choose("node zoo", lambda suite: index[suite], newest=True)] == [
        "1.10.0",
        "1.10.0",
        "generated",
    ]
    assert len(select.choose("node zoo", lambda suite: index[suite])) == 4


def test_each_variant_of_a_case_is_a_test() -> None:
    rows = [Row("s", "s/1/a", "A"), Row("s", "s/2/a", "A")]
    chosen = select.distinct(rows, ["recorded", "composed"])
    assert [chosen.names for chosen in chosen] == [["s/2/a", "s/1/a"], ["s/2/a@composed", "s/1/a@composed"]]
    assert [chosen.ids for chosen in chosen] == [["s/2/a", "s/1/a"]] * 2


def test_a_case_that_draws_is_of_the_recorded_kind_and_follows_its_distribution(tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Bernoulli", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph), str(tmp_path / "model.onnx"))
    random = np.random.RandomState(1)

    class Random(Case):
        model = tmp_path / "model.onnx"

        def data_sets(self) -> Any:
            yield Data({"x": np.array([0.25, 0.5])}, {"y": np.array([1.0, 1.0])})

    class Drawing:
        def __init__(self, factor: float, dtype: Any) -> None:
            self.factor, self.dtype = factor, dtype

        def run(self, inputs: Dict[str, Any]) -> List[Any]:
            return [(random.uniform(size=inputs["x"].shape) < inputs["x"] * self.factor).astype(self.dtype)]

    case = Random([2], ["random"])
    assert run_case(lambda *_, **__: Drawing(1.0, np.float64), case, "some") == []
    with pytest.raises(Mismatch, match=r"expected float64\[2\]"):
        run_case(lambda *_, **__: Drawing(1.0, np.float32), case, "some")
    with pytest.raises(Mismatch, match="happened"):
        run_case(lambda *_, **__: Drawing(1.5, np.float64), case, "some")


def test_a_case_that_ends_its_worker_fails_under_all_its_names() -> None:
    rows = [Row("s", "s/1/a", "A"), Row("s", "s/2/a", "A"), Row("s", "s/2/b", "B")]
    results = tally.make_crash_results(
        {"s/2/a@composed": "worker crashed"}, select.distinct(rows, ["recorded", "composed"])
    )
    assert [(result.id, result.outcome, result.detail) for result in results] == [
        ("s/2/a@composed", FAIL, "worker crashed"),
        ("s/1/a@composed", FAIL, "worker crashed"),
    ]


def test_variants_are_counted_separately() -> None:
    results = [tally.Result("s/1/a@composed", PASS, "", 0.1), tally.Result("s/1/a", FAIL, "", 0.1)]
    assert sorted(tally.counts(results)) == ["s/1", "s/1@composed"]


def test_the_tally_counts_every_outcome(tmp_path: Path) -> None:
    results = [tally.Result("s/1/%d" % i, outcome, "", 0.1) for i, outcome in enumerate((PASS, PASS, GAP, FAIL))]
    results.append(tally.Result("t/1/x", FALLBACK, "n", 0.1))
    counted = {"s/1": {PASS: 2, FALLBACK: 0, GAP: 1, FAIL: 1}, "t/1": {PASS: 0, FALLBACK: 1, GAP: 0, FAIL: 0}}
    assert tally.counts(results) == counted
    assert tally.table(results)[-1].split() == ["all", "2", "1", "1", "1"]
    tally.write(tmp_path / "new" / "results.json", results, {"shim": "some"})
    written = json.loads((tmp_path / "new" / "results.json").read_text(encoding="utf-8"))
    assert written["shim"] == "some"
    assert written["counts"] == counted
    assert len(written["results"]) == 5
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["results.json"]
