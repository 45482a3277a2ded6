"""The generator of the fuzzer: the same seed gives the same case, and every case is one that all runtimes must agree on."""

import json
import random

import numpy as np
import pytest

from matrix.fuzz.document import dump_case, parse_case, pretty
from matrix.fuzz.draft import GRID, MOVE, STEP, Draft, Shared
from matrix.fuzz.draw import Draw
from matrix.fuzz.evaluation import session_of
from matrix.fuzz.execution import FAILURES, execute
from matrix.fuzz.generator import OPSETS, attempt, generate
from matrix.fuzz.graphs import Graph, walk
from matrix.fuzz.registry import TEMPLATES, template
from matrix.fuzz.values import LARGEST, Rejected, Sample, Value, noise_level

pytest.importorskip("onnxruntime")
SEEDS = range(120)


@pytest.fixture(scope="module")
def cases():
    generated = [generate(seed) for seed in SEEDS]
    return [result.case for result in generated if result.case is not None]


def start(seed: int, opset: int = OPSETS[-1], worlds: int = 1) -> Draw:
    """Return a source of choices over a draft with an operand of each type that templates ask for."""
    rng = random.Random(seed)  # noqa: S311 - not for cryptography
    draw = Draw(Draft(Shared(rng, np.random.RandomState(seed), opset, worlds, False, [], {})))
    for dtype in ("float32", "int64", "int32", "uint8", "int8", "bool", "object", "float64"):
        for shape in ((2, 4, 4, 4), (3, 4), (2, 2, 4), (5,)):
            draw.add_input([draw.data(shape, dtype, 0, 4)] * worlds)
    for low in (0.25, 1.25):
        draw.add_input([np.full((1, 2, 4, 4), low, np.float32)] * worlds)
    return draw


def test_a_seed_gives_the_same_case(cases):
    again = [generate(case.seed).case for case in cases[:40]]
    assert [dump_case(case) for case in again] == [dump_case(case) for case in cases[:40]]


def test_most_seeds_give_a_case(cases):
    assert len(cases) > 0.9 * len(SEEDS)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_template_adds_a_node(name):
    entry = TEMPLATES[name]
    for seed in range(200):
        draw = start(seed)
        if name == "LpPool":
            draw.add_input([draw.data((1, 2, 4, 4), "float32", 1, 3)])
        if name.startswith(("Sequence", "ConcatFromSequence")):
            attempt(draw, TEMPLATES["SequenceConstruct"])
        count = len(draw.draft.nodes)
        if attempt(draw, entry) and len(draw.draft.nodes) > count:
            return
    pytest.fail("no node in 200 tries")


def test_the_slopes_of_a_prelu_have_all_shapes_that_broadcast():
    kinds = set()
    for seed in range(200):
        draw = start(seed)
        if attempt(draw, TEMPLATES["PRelu"]):
            shapes = {value.name: value.shapes[0] for value in draw.draft.visible}
            x, slope = (shapes[name] for name in draw.draft.nodes[-1].inputs)
            wide_axes = [axis - len(slope) for axis, size in enumerate(slope) if size > 1]
            kinds.add("one" if not wide_axes else "channels" if wide_axes == [1 - len(x)] else "others")
            assert np.broadcast(np.empty(x), np.empty(slope)).shape == x
    assert kinds == {"one", "channels", "others"}


def test_no_concat_joins_empty_tensors_of_other_sizes():
    """onnxruntime computes such a Concat, and the specification has no meaning for it."""
    shapes = [(8, 1, 0, 3), (4, 1, 0, 3), (8, 1, 0, 5)]
    joined = set()
    for seed in range(100):
        rng = random.Random(seed)  # noqa: S311 - not for cryptography
        draw = Draw(Draft(Shared(rng, np.random.RandomState(seed), 19, 1, True, [], {})))
        sizes = {draw.add_input([np.zeros(shape, np.float32)]).name: shape for shape in shapes}
        if attempt(draw, TEMPLATES["Concat"]):
            (node,) = draw.draft.nodes
            axis = node.attributes["axis"] % 4
            assert len({sizes[name][:axis] + sizes[name][axis + 1 :] for name in node.inputs}) == 1
            joined.add(frozenset(sizes[name] for name in node.inputs))
    assert {len(shapes) for shapes in joined} == {1, 2}


def test_a_rejected_template_leaves_nothing():
    @template("test-only")
    def reject(draw):
        draw.fresh([(3,)])
        draw.node("Neg", [draw.pick()])
        raise Rejected("late")

    entry = TEMPLATES.pop("test-only")
    draw = start(1)
    before = (len(draw.draft.inputs), len(draw.draft.nodes), len(draw.draft.values), dict(draw.draft.initializers))
    assert not attempt(draw, entry)
    after = (len(draw.draft.inputs), len(draw.draft.nodes), len(draw.draft.values), dict(draw.draft.initializers))
    assert before == after


def test_values_are_finite_and_moderate(cases):
    for case in cases:
        for run in case.runs:
            for value in [*run.feeds.values(), *run.expected.values()]:
                for array in value if isinstance(value, list) else [value]:
                    assert array.dtype.kind != "f" or (
                        np.isfinite(array).all() and np.abs(array).max(initial=0) <= LARGEST
                    )


def test_open_sizes_transposes_and_bodies_occur(cases):
    assert sum(len(case.runs) == 2 for case in cases) > len(cases) / 3
    operators = {node.operator for case in cases for node in walk(case.graph)}
    assert {"Transpose", "Reshape", "Shape", "Conv", "If", "QuantizeLinear"} <= operators
    assert any(
        isinstance(value, Graph) for case in cases for node in case.graph.nodes for value in node.attributes.values()
    )
    assert len({case.opset for case in cases}) > 8


def test_a_case_survives_its_text_form(cases):
    for case in cases:
        document = json.loads(pretty(dump_case(case)))
        assert dump_case(parse_case(document)) == document
        parsed = parse_case(document)
        for run, original in zip(parsed.runs, case.runs):
            for name, value in original.feeds.items():
                np.testing.assert_array_equal(run.feeds[name], value)
                assert run.feeds[name].dtype == value.dtype


def test_no_graph_differs_on_the_reference(cases):
    """The short form of a campaign: 300 seeds on the reference."""
    more = [generate(seed).case for seed in range(1000, 1180)]
    outcomes = {case.seed: execute(case, "reference") for case in [*cases, *more] if case is not None}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome.kind in FAILURES} == {}
    assert len(outcomes) > 270


def test_a_discontinuous_operator_takes_only_exact_values():
    inexact = Value("v", [Sample(np.float32([0.3]), np.float32([0.30001]))], exact=False)
    exact = Value("w", [Sample(np.float32([0.25]), np.float32([0.25]))], exact=True)
    assert STEP([exact]) and GRID([exact]) and MOVE([exact])
    assert not MOVE([exact, inexact])
    with pytest.raises(Rejected, match="discontinuous"):
        STEP([exact, inexact])


def test_a_value_that_noise_changes_is_rejected():
    assert noise_level(np.float32([100]), np.float32([100.001])) < 0.01
    for array, shaken in [
        (np.float32([1]), np.float32([1.1])),
        (np.array([1]), np.array([2])),
        (np.zeros(2), np.zeros(3)),
    ]:
        with pytest.raises(Rejected, match="noise"):
            noise_level(array, shaken)


def test_integers_that_overflow_are_rejected():
    draw = start(0)
    large = draw.draft.add_initializer(np.full(5, 100, np.int8))
    with pytest.raises(Rejected, match="overflow"):
        draw.node("Add", [large, large], GRID)


def test_two_templates_of_a_name_are_an_error():
    with pytest.raises(ValueError, match="registered twice"):
        template("Add")(lambda draw: None)


def test_the_oracle_runs_the_generated_models(cases):
    case = cases[0]
    outputs = session_of(case.graph, case.opset)(case.runs[0].feeds)
    assert len(outputs) == len(case.graph.outputs)
