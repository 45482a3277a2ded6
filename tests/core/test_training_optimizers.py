"""Optimizers: stored results of Keras, state, accumulation, loss scaling, clipping, and options that do not fit."""

import math

import numpy as np
import pytest

from matrix.harness.functions import run_function
from matrix.harness.optimizer_steps import OptimizerRun
from onnx_compat.errors import InputError
from onnx_compat.ir import dtypes
from onnx_compat.tracing.values import lift
from onnx_compat.training import loss_scaling, optimizers, schedules
from onnx_compat.training.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from onnx_compat.training.loss_scaling import DynamicLossScale
from onnx_compat.training.optimizers import OPTIMIZERS, optimizer

PARAMETERS = [np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), np.array([0.1, -0.2, 0.0], np.float32)]


def gradients_of(step, dtype=np.float32):
    sizes = (2.0, 0.3)
    return [
        (np.cos(np.arange(array.size) * 1.7 + step).reshape(array.shape) * size).astype(dtype)
        for array, size in zip(PARAMETERS, sizes)
    ]


#: The parameters after 5 steps of Keras 3.15.1 with the learning rate 0.1, and the gradients `gradients_of`.
OF_KERAS = {
    "sgd": [1.103896, -1.788262, 0.3415411, 2.829095, 0.1155844, -0.1682392, -0.02376882],
    "momentum": [0.5418376, -0.9752176, 0.6940873, 1.925203, 0.03127564, -0.04628265, 0.0291131],
    "nesterov": [0.69155, -0.8659574, 0.5162198, 1.861778, 0.0537325, -0.0298936, 0.00243298],
    "adam": [0.7933426, -1.629491, 0.6528772, 2.633359, -0.1066556, 0.1705003, 0.1528756],
    "adamw": [0.7916514, -1.625856, 0.6516054, 2.627738, -0.1065481, 0.170538, 0.152603],
    "adagrad": [0.9896253, -1.826125, 0.4854901, 2.839488, 0.1074945, -0.1158549, -0.02679667],
    "rmsprop": [0.9968807, -1.337857, 0.4244788, 2.478392, 0.09688178, 0.4620373, -0.075522],
    "adadelta": [1.000103, -1.999655, 0.4998557, 2.999772, 0.1001031, -0.1996552, -0.000144284],
    "adamax": [0.81774, -1.700389, 0.6382185, 2.707117, -0.08225992, 0.09961085, 0.1382184],
    "nadam": [0.9793247, -1.751571, 0.4891852, 2.796952, 0.07932459, 0.04842845, -0.01081469],
    "ftrl": [0.8334516, -0.275708, 0.4047903, 1.681755, 0.0349469, 0.08266761, -0.02679666],
    "lion": [1.1, -1.7, 0.4, 2.9, 0.2, 0.1, -0.1],
    "lamb": [0.6866331, -1.098614, 0.6612724, 2.148393, 0.07622707, -0.1351852, 0.01268623],
    "adafactor": [1.09749, -1.687271, 0.3241097, 2.624765, 0.1080686, -0.1721634, -0.01168557],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_five_steps_are_those_of_keras(name, dtype):
    run = OptimizerRun(optimizer(name, 0.1), [array.astype(dtype) for array in PARAMETERS])
    for step in range(5):
        run.step(gradients_of(step, dtype))
    assert all(array.dtype == dtype for array in run.parameters)
    got = np.concatenate([array.reshape(-1) for array in run.parameters])
    np.testing.assert_allclose(got, OF_KERAS[name], 2e-5, 2e-6)


COMMON = [
    {},
    {"accumulate": 3, "loss_scale": "dynamic"},
    {"weight_decay": 0.1, "global_clip_norm": 1.0, "loss_scale": 8.0},
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("options", COMMON)
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_the_state_keeps_its_names_shapes_and_dtypes(name, options, dtype):
    parameters = [np.ones(shape, dtype) for shape in ((2, 3, 4), (3, 2), (4,), (), (0, 2))]
    description = optimizer(name, **options)
    run = OptimizerRun(description, parameters)
    before = {slot: [(array.dtype, array.shape) for array in arrays] for slot, arrays in run.state.items()}
    assert set(before) == {*description.slots(), *description.shared_state()}
    with np.errstate(all="ignore"):  # float16 has no 1e-30, and the mean of no elements is NaN
        run.step(parameters)
    assert {slot: [(array.dtype, array.shape) for array in arrays] for slot, arrays in run.state.items()} == before
    assert [array.dtype for array in run.parameters] == [dtype] * 5
    assert [array.shape for array in run.parameters] == [array.shape for array in parameters]


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_gradients_and_parameters_of_0_give_finite_numbers(name):
    run = OptimizerRun(
        optimizer(name, 0.1, global_clip_norm=1.0), [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)]
    )
    for _ in range(3):
        run.step([np.zeros_like(array) for array in run.parameters])
    for array in [*run.parameters, *(array for arrays in run.state.values() for array in arrays)]:
        assert np.isfinite(array).all()
    assert not any(array.any() for array in run.parameters)


def test_a_state_that_cannot_change_is_the_same_tensor():
    adafactor = optimizer("adafactor", 0.1)
    vector = lift(np.ones(3, np.float32))
    slots = {slot: [lift(adafactor.initial(slot, vector.value))] for slot in adafactor.slots()}
    slots.update((name, [lift(value)]) for name, value in adafactor.shared_state().items())
    _, after = adafactor.apply([vector], [vector], slots, lift(0))
    assert {name for name in slots if after[name][0] is slots[name][0]} == {"learning_rate", "column"}


def test_the_learning_rate_is_state():
    run = OptimizerRun(optimizer("sgd", 0.5), [np.zeros(1, np.float32)])
    run.step([np.ones(1, np.float32)])
    run.state["learning_rate"] = [np.array(0.25, np.float32)]
    assert run.step([np.ones(1, np.float32)])[0] == -0.75
    assert optimizer("sgd", 0.5).hyperparameters() == {"learning_rate": 0.5}


def test_a_schedule_is_no_state():
    sgd = optimizer("sgd", schedules.PiecewiseConstantDecay([0], [0.5, 0.25]))
    assert (sgd.shared_state(), sgd.hyperparameters()) == ({}, {})
    run = OptimizerRun(sgd, [np.zeros(1, np.float32)])
    assert [float(run.step([np.ones(1, np.float32)])[0][0]) for _ in range(3)] == [-0.5, -0.75, -1.0]


# -- accumulation ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_accumulated_steps_are_steps_of_the_mean_gradient(name):
    accumulated = OptimizerRun(optimizer(name, 0.1, accumulate=3, clip_norm=1.0), PARAMETERS)
    plain = OptimizerRun(optimizer(name, 0.1, clip_norm=1.0), PARAMETERS)
    for k in range(0, 9, 3):
        before = accumulated.parameters
        steps = [gradients_of(step) for step in range(k, k + 3)]
        for step in steps[:2]:
            for kept, old in zip(accumulated.step(step), before):
                np.testing.assert_array_equal(kept, old)
        mean = [(a + b + c) / np.float32(3) for a, b, c in zip(*steps)]
        for got, expected in zip(accumulated.step(steps[2]), plain.step(mean)):
            np.testing.assert_allclose(got, expected, 1e-6, 1e-7)
        assert not any(array.any() for array in accumulated.state["accumulated_gradient_sum"])


def test_accumulation_of_one_step_is_none():
    assert optimizer("adam", accumulate=1).slots() == optimizer("adam").slots() == ("momentum", "velocity")


# -- loss scaling ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_gradient_that_is_not_finite_changes_only_the_scale(name, value):
    description = optimizer(name, 0.1, loss_scale=DynamicLossScale(16.0, 3), accumulate=2)
    run, other_run = OptimizerRun(description, PARAMETERS), OptimizerRun(description, PARAMETERS)
    bad = gradients_of(1)
    bad[1][2] = value
    for step in range(5):
        if step == 3:
            before, state = run.parameters, run.state
            run.step(bad)
            for got, expected in zip(run.parameters, before):
                np.testing.assert_array_equal(got, expected)
            changed = {key for key in state if not all(map(np.array_equal, run.state[key], state[key]))}
            assert changed == {"loss_scale", "skipped_steps"}
            assert (float(state["loss_scale"][0]), float(run.state["loss_scale"][0])) == (32.0, 16.0)
            # After it, both have the same scale, and one run has made a call more.
            other_run.state["loss_scale"] = run.state["loss_scale"]
        scale = float(run.state["loss_scale"][0])
        gradients = [gradient * np.float32(scale) for gradient in gradients_of(step)]
        for got, expected in zip(run.step(gradients), other_run.step(gradients)):
            np.testing.assert_array_equal(got, expected)


def test_a_dynamic_scale_stays_in_its_bounds():
    for start, gradient in ((2.0**126, 0.0), (2.0**-126, math.inf)):
        run = OptimizerRun(optimizer("sgd", loss_scale=DynamicLossScale(start, 1)), [np.zeros(1, np.float32)])
        run.step([np.full(1, gradient, np.float32)])
        assert run.state["loss_scale"][0] == start


def test_the_scaled_loss():
    loss = lift(np.array(3.0, np.float32))
    assert optimizer("sgd").scale_loss(loss, {}) is loss
    assert float(optimizer("sgd", loss_scale=4).scale_loss(loss, {}).value) == 12
    scaled = optimizer("sgd", loss_scale="dynamic")
    slots = {name: [lift(value)] for name, value in scaled.shared_state().items()}
    assert float(scaled.scale_loss(loss, slots).value) == 3 * 2**15
    half = scaled.scale_loss(lift(np.array(1.0, np.float16)), slots)
    assert (half.dtype, float(half.value)) == (dtypes.float16, 2**15)


@pytest.mark.parametrize("array", [[1.0, 2.0], [], [np.nan, 1.0], [np.inf], [-np.inf, 0.0], [3e38]])
def test_is_finite(array):
    arrays = [np.ones((2, 2), np.float32), np.array(array, np.float32)]
    (got,) = run_function(lambda *xs: loss_scaling.is_finite(xs), arrays)
    assert bool(got) == bool(np.isfinite(arrays[1]).all())


# -- clipping and weight decay -----------------------------------------------------------------------------------------
def clip(function, arrays, limit):
    return run_function(lambda *xs: function(xs, limit), [np.asarray(array, np.float32) for array in arrays])


def test_clipping():
    arrays = [[3.0, -4.0], [0.3, 0.0]]
    np.testing.assert_allclose(clip(clip_by_value, arrays, 0.5), [[0.5, -0.5], [0.3, 0]], 1e-6)
    np.testing.assert_allclose(clip(clip_by_norm, arrays, 1.0), [[0.6, -0.8], [0.3, 0]], 1e-6)
    np.testing.assert_allclose(clip(clip_by_global_norm, arrays, 1.0), np.array(arrays) / math.sqrt(25.09), 1e-6)
    np.testing.assert_allclose(clip(clip_by_global_norm, arrays, 9.0), np.array(arrays), 1e-6)


def test_a_global_norm_that_is_not_finite_spoils_all_gradients():
    with np.errstate(invalid="ignore"):
        assert all(np.isnan(array).all() for array in clip(clip_by_global_norm, [[np.inf, 1.0], [2.0]], 1.0))


def test_a_global_norm_of_float16_gradients_does_not_overflow():
    arrays = [np.full(4, 300, np.float16), np.full((), 400, np.float32)]
    got = run_function(lambda *xs: clip_by_global_norm(xs, 1.0), arrays)
    norm = math.sqrt(4 * 300**2 + 400**2)
    np.testing.assert_allclose(got[0], np.full(4, 300 / norm), 2e-3)
    assert float(got[1]) == pytest.approx(400 / norm)


def test_weight_decay_of_some_parameters():
    sgd = optimizer("sgd", 0.5, weight_decay=0.1)
    run = OptimizerRun(sgd, [np.full(1, 2, np.float32), np.full(1, 2, np.float32)], decayed=[True, False])
    got = run.step([np.zeros(1, np.float32), np.zeros(1, np.float32)])
    np.testing.assert_allclose(got, [[1.9], [2]])


# -- description -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "description",
    [
        optimizer("adamw"),
        optimizer("AdamW", 0.01, beta_1=0.8, weight_decay=None),
        optimizer("rmsprop", centered=True, accumulate=2, loss_scale="dynamic"),
        optimizer("SGD", schedules.CosineDecay(0.1, 5), momentum=0.9),
    ],
)
def test_the_repr_makes_the_optimizer_again(description):
    names = {**vars(schedules), "DynamicLossScale": DynamicLossScale, "optimizer": optimizer}
    assert eval(repr(description), names) == description  # noqa: S307 (the text is the repr of the test's own object)


def test_the_repr_has_what_differs_from_the_defaults():
    assert repr(optimizer("AdamW", beta_2=0.9)) == "optimizer('adamw', learning_rate=0.001, beta_2=0.9)"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("adamm", {}, "did you mean 'adam"),
        (None, {}, "given by its name, not as NoneType"),
        ("adam", {"beta1": 0.9}, "did you mean 'beta_1'"),
        ("sgd", {"beta_1": 0.9}, "has no option 'beta_1'"),
        ("adam", {"beta_1": 1.5}, r"beta_1 must be a number in \[0, 1\), not 1.5"),
        ("adam", {"beta_2": 1}, r"beta_2 must be a number in \[0, 1\), not 1"),
        ("adam", {"epsilon": math.nan}, "epsilon must be a number"),
        ("adam", {"epsilon": "1e-7"}, "epsilon must be a number"),
        ("adam", {"amsgrad": 1}, "amsgrad must be True or False"),
        ("adam", {"learning_rate": -1.0}, r"learning_rate must be a number in \[0, inf\)"),
        ("adam", {"learning_rate": "fast"}, "learning_rate must be a number"),
        ("adam", {"learning_rate": True}, "learning_rate must be a number"),
        ("adam", {"clip_norm": 0}, r"clip_norm must be a number in \(0, inf\)"),
        ("adam", {"clip_norm": 1.0, "clip_value": 1.0}, "only one of"),
        ("adam", {"clip_norm": DynamicLossScale()}, "clip_norm must be a number"),
        ("adam", {"accumulate": 0}, r"accumulate must be a number in \[1, inf\)"),
        ("adam", {"accumulate": 1.5}, "accumulate must be an integer"),
        ("adam", {"loss_scale": "static"}, "loss_scale must be a number"),
        ("adam", {"weight_decay": -0.1}, "weight_decay must be a number in"),
        ("ftrl", {"learning_rate_power": 0.5}, "learning_rate_power must be a number in"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        optimizer(name, **options)


@pytest.mark.parametrize(("initial", "growth_steps"), [(0, 1), (1.0, 0), (1.0, 1.5), (math.inf, 1)])
def test_a_dynamic_scale_out_of_range_is_refused(initial, growth_steps):
    with pytest.raises(InputError, match="must be"):
        DynamicLossScale(initial, growth_steps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda slots: slots.pop("velocity"), "needs 1 tensors of 'velocity', and has none"),
        (lambda slots: slots.pop("learning_rate"), "needs 1 tensors of 'learning_rate'"),
        (lambda slots: slots["momentum"].append(lift(0.0)), "needs 1 tensors of 'momentum', and has 2"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, message):
    adam = optimizer("adam")
    vector = lift(np.ones(3, np.float32))
    slots = {slot: [vector] for slot in adam.slots()}
    slots["learning_rate"] = [lift(np.float32(1))]
    change(slots)
    with pytest.raises(InputError, match=message):
        adam.apply([vector], [vector], slots, lift(0))


def test_lists_that_do_not_fit_are_refused():
    sgd = optimizer("sgd")
    vector, slots = lift(np.ones(3, np.float32)), {"learning_rate": [lift(np.float32(1))]}
    with pytest.raises(InputError, match="needs 1 tensors of 'gradients', and has 2"):
        sgd.apply([vector], [vector, vector], slots, lift(0))
    with pytest.raises(InputError, match="needs 1 tensors of 'decayed', and has 0"):
        sgd.apply([vector], [vector], slots, lift(0), [])
    with pytest.raises(InputError, match="needs 0 tensors of 'gradients'"):
        sgd.apply([], [], slots, lift(0))


def test_the_names_of_the_package():
    from onnx_compat import training

    assert training.optimizer is optimizers.optimizer
    assert sorted(dir(training)) == sorted(training.__all__)
    assert all(getattr(training, name) for name in training.__all__)
    with pytest.raises(AttributeError, match="no attribute 'optimiser'"):
        training.optimiser  # noqa: B018 (reading the name raises)
