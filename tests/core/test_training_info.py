"""Training information of models that other tools may have written: read, validate, run."""

import copy
import os

import numpy as np
import pytest
from building import INT64, model, node, relu_model, value
from training_models import PREVIEW, add_info, entries, line, line_batch

import onnx_compat
from onnx_compat.errors import InputError, InvalidModelError, NonFiniteError
from onnx_compat.training import prepare_training, step_model
from onnx_compat.training.training_info import METADATA, read_training_info


def expected_steps(batches, w=((1.0,), (-1.0,)), rate=0.1):
    """Return (losses, w) of gradient descent, computed in numpy."""
    w, losses = np.array(w, np.float64), []
    for batch in batches:
        distance = batch["x"] @ w - batch["t"]
        losses.append((distance**2).mean())
        w = w - rate * 2 * batch["x"].T @ distance / len(distance)
    return losses, w


def test_a_step_assigns_the_states():
    trainer = prepare_training(line(), shim="reference")
    batches = [line_batch(n) for n in (4, 3, 5)]
    losses, w = expected_steps(batches)
    assert [trainer.step(batch)["loss"] for batch in batches] == pytest.approx(losses, rel=1e-5)
    state = trainer.state()
    np.testing.assert_allclose(state["w"], w, rtol=1e-5)
    assert state["steps"] == 3 and state["steps"].dtype == np.int64


def test_predict_and_evaluate_use_the_states_and_change_none():
    trainer = prepare_training(line(), shim="reference")
    batch = line_batch()
    before = trainer.evaluate(batch, batch_size=3)["loss"]
    assert before == pytest.approx(expected_steps([batch])[0][0], rel=1e-5)
    assert trainer.step(batch)["loss"] == pytest.approx(before, rel=1e-5)
    np.testing.assert_allclose(trainer.predict({"x": batch["x"]})["y"], batch["x"] @ trainer.state()["w"], rtol=1e-6)
    state = trainer.state()
    trainer.evaluate([batch])
    assert all(np.array_equal(array, state[name]) for name, array in trainer.state().items())


def test_the_step_model_is_a_plain_model_without_dead_nodes():
    proto = line()
    proto.graph.node.append(node("Neg", ["y"], ["dead"]))
    proto.graph.output.append(value("dead", ["n", 1]))
    step = step_model(proto)
    assert [port.name for port in step.graph.input] == ["x", "t", "w", "steps"]
    assert [port.name for port in step.graph.output] == ["loss", "w_next", "steps_next"]
    assert not step.training_info and "dead" not in [name for inner in step.graph.node for name in inner.output]
    batch = dict(line_batch(), w=np.ones((2, 1), np.float32), steps=np.int64(7))
    assert onnx_compat.run(step, batch, shim="reference")["steps_next"] == 8


def test_entries_are_executed_in_order_on_the_states_so_far():
    """The second entry sees the main graph with the weights that the first entry has assigned."""
    proto = model(
        [node("Mul", ["x", "w"], ["y"])], [value("x", [1])], [value("y", [1])], {"w": np.array([2], np.float32)}
    )
    first = [node("Add", ["w", "y"], ["w_next"])]
    add_info(proto, first, [], [value("w_next", [1])], {}, {"w": "w_next"})
    second = [node("Mul", ["y", "two"], ["seen"]), node("Add", ["total", "y"], ["total_next"])]
    states = {"two": np.array([2], np.float32), "total": np.array([0], np.float32)}
    add_info(proto, second, [], [value("seen", [1]), value("total_next", [1])], states, {"total": "total_next"})
    trainer = prepare_training(proto, shim="reference")
    x = np.array([3], np.float32)
    for w, total in ((8, 24), (32, 120)):  # w + 3 w, then y = 3 w of the new w
        assert trainer.step({"x": x})["seen"] == [2 * 3 * w]
        assert trainer.state()["w"] == [w] and trainer.state()["total"] == [total]


def test_a_second_entry_differentiates_on_the_states_so_far():
    """y = x w v: the second step uses the derivative at the new w."""
    stored = {"w": np.array([2], np.float32), "v": np.array([3], np.float32)}
    nodes = [node("Mul", ["x", "w"], ["h"]), node("Mul", ["h", "v"], ["y"])]
    proto = model(nodes, [value("x", [1])], [value("y", [1])], stored, 13, [PREVIEW])
    for name, other_name in (("w", "v"), ("v", "w")):
        slope, following = "slope_" + name, name + "_next"
        gradient = node(
            "Gradient", [name, "x", other_name], [slope], domain=PREVIEW.domain, xs=[name], zs=["x", other_name], y="y"
        )
        add_info(
            proto,
            [gradient, node("Sub", [name, slope], [following])],
            [],
            [value(following, [1])],
            {},
            {name: following},
        )
    trainer = prepare_training(proto, shim="reference")
    trainer.step({"x": np.array([5], np.float32)})
    assert trainer.state()["w"] == [2 - 5 * 3] and trainer.state()["v"] == [3 - 5 * (2 - 5 * 3)]


def test_an_interrupt_within_a_step_keeps_a_complete_step(tmp_path, monkeypatch):
    """States and position belong to one step, wherever the interrupt comes."""
    trainer = prepare_training(line(), shim="reference")
    step = trainer.step

    def interrupt(batch, check_numerics):
        results = step(batch, check_numerics)
        if trainer.state()["steps"] == 3:
            raise KeyboardInterrupt
        return results

    monkeypatch.setattr(trainer, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(line_batch(10), batch_size=2, checkpoint=tmp_path / "run.checkpoint")
    assert trainer.state()["steps"] == 2 and trainer.position == (0, 2)
    again = prepare_training(line(), shim="reference")
    again.load_checkpoint(tmp_path / "run.checkpoint")
    assert again.state()["steps"] == 2 and again.position == (0, 2)


def test_initialize_follows_the_bindings_and_the_seed():
    trainer = prepare_training(line(), shim="reference")
    trainer.step(line_batch())
    trainer.initialize(seed=1)
    first = trainer.state()
    assert first["steps"] == 0 and not np.array_equal(first["w"], [[1], [-1]]) and (np.abs(first["w"]) <= 1).all()
    trainer.initialize(seed=2)
    assert not np.array_equal(first["w"], trainer.state()["w"])
    trainer.initialize(seed=1)
    assert np.array_equal(first["w"], trainer.state()["w"])


def test_save_writes_both_kinds_of_files(tmp_path):
    trainer = prepare_training(line(), shim="reference")
    trainer.step(line_batch())
    trainer.save(tmp_path / "training.onnx")
    trainer.save(tmp_path / "inference.onnx", training=False)
    again = prepare_training(str(tmp_path / "training.onnx"), shim="reference")
    assert all(np.array_equal(array, again.state()[name]) for name, array in trainer.state().items())
    x = line_batch()["x"]
    inference = onnx_compat.load(str(tmp_path / "inference.onnx"))
    assert not inference.proto.training_info and list(inference.opsets) == [""]
    np.testing.assert_array_equal(
        onnx_compat.run(inference, [x], shim="reference")["y"], trainer.predict({"x": x})["y"]
    )


# -- invalid training information --------------------------------------------------------------------------------------
def change(proto, binding, **fields):
    entry = proto.training_info[0].update_binding[binding]
    for name, text in fields.items():
        setattr(entry, name, text)


def redeclare(proto, name, shape, dtype=None):
    ports = proto.training_info[0].algorithm.output
    position = [port.name for port in ports].index(name)
    ports[position].CopyFrom(value(name, shape, dtype or ports[position].type.tensor_type.elem_type))


def add_input_of_the_initialization(proto):
    proto.training_info[0].initialization.input.append(value("seed", []))


def add_equal_initializer(proto):
    proto.graph.initializer.append(proto.training_info[0].algorithm.initializer[0])


def add_metadata(proto):
    proto.metadata_props.extend(entries({METADATA: '{"results": ["lost"]}'}))


DEFECTS = {
    "a state that does not exist": (lambda m: change(m, 0, key="v"), "assigns to 'v', which is no initializer"),
    "a state that is an input": (lambda m: change(m, 0, key="x"), "assigns to 'x', which is no initializer"),
    "an output that does not exist": (lambda m: change(m, 0, value="w_nexd"), "did you mean 'w_next'"),
    "a value that is no output": (lambda m: change(m, 0, value="change"), "no graph has this output"),
    "bound twice": (lambda m: change(m, 1, key="w", value="w_next"), "'w', which is bound already"),
    "another shape": (lambda m: redeclare(m, "w_next", [1, 2]), r"float32\[1, 2\] to 'w' of type float32\[2, 1\]"),
    "another rank": (lambda m: redeclare(m, "w_next", [2]), r"float32\[2\] to 'w'"),
    "another dtype": (lambda m: redeclare(m, "w_next", [2, 1], INT64), r"int64\[2, 1\] to 'w'"),
    "an initialization with inputs": (add_input_of_the_initialization, "initialization of .* has the input 'seed'"),
    "two initializers of one name": (add_equal_initializer, "have an initializer 'rate'"),
    "metadata of another model": (add_metadata, "names 'lost', which is no output"),
    "no training information": (lambda m: m.ClearField("training_info"), "no training_info"),
}


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_invalid_training_information_is_refused(name):
    damage, message = DEFECTS[name]
    proto = line()
    read_training_info(copy.deepcopy(proto))
    damage(proto)
    with pytest.raises(InvalidModelError, match=message):
        prepare_training(proto, shim="reference")


def test_a_state_bound_by_two_entries_is_refused():
    proto = line()
    proto.training_info.add().CopyFrom(proto.training_info[0])
    second = proto.training_info[1]
    del second.algorithm.initializer[:], second.initialization_binding[:]
    with pytest.raises(InvalidModelError, match=r"training_info\[1\].update_binding assigns to 'w', which is bound"):
        prepare_training(proto, shim="reference")


def test_an_undeclared_type_is_checked_when_the_step_runs():
    proto = line()
    redeclare(proto, "w_next", None)
    proto.training_info[0].algorithm.node[5].CopyFrom(node("Transpose", ["w"], ["w_next"]))
    trainer = prepare_training(proto, shim="reference")
    with pytest.raises(InvalidModelError, match="state 'w' is"):
        trainer.step(line_batch())


# -- data, states and checkpoints that do not fit ----------------------------------------------------------------------
BATCHES = {
    "an input is missing": (lambda b: {"x": b["x"]}, "'t' is not given"),
    "another name": (lambda b: dict(b, z=b["x"]), "no input named 'z'"),
    "another dtype": (lambda b: dict(b, x=b["x"].astype(np.int32)), "'x'"),
    "another rank": (lambda b: dict(b, x=b["x"][0]), "rank 1"),
    "another size": (lambda b: dict(b, x=b["x"][:, :1]), "'x'"),
    "a state": (lambda b: dict(b, w=np.zeros((2, 1), np.float32)), "has the state 'w'"),
    "a list": (lambda b: [b["x"], b["t"]], "a batch is a dict"),
}


@pytest.mark.parametrize("name", sorted(BATCHES))
def test_a_batch_that_does_not_fit_keeps_the_states(name):
    change_batch, message = BATCHES[name]
    trainer = prepare_training(line(), shim="reference")
    state = trainer.state()
    with pytest.raises(InputError, match=message):
        trainer.step(change_batch(line_batch()))
    assert all(np.array_equal(array, state[key]) for key, array in trainer.state().items())


DATA = {
    "an array is missing": ({"x": np.zeros((4, 2), np.float32)}, "no array for the input 't'"),
    "unequal lengths": ({"x": np.zeros((4, 2), np.float32), "t": np.zeros((3, 1), np.float32)}, "'x' has 4, 't' has 3"),
    "no axis": ({"x": np.zeros((4, 2), np.float32), "t": np.float32(0)}, "'t' has no axis"),
    "no examples": ({"x": np.zeros((0, 2), np.float32), "t": np.zeros((0, 1), np.float32)}, "no examples"),
    "no batches": ([], "has no batches"),
    "no dicts": ([np.zeros((4, 2))], "a batch is a ndarray"),
}


@pytest.mark.parametrize("name", sorted(DATA))
def test_data_that_do_not_fit(name):
    data, message = DATA[name]
    with pytest.raises(InputError, match=message):
        prepare_training(line(), shim="reference").fit(data)


def test_a_generator_that_ends_is_named_in_the_second_epoch():
    trainer = prepare_training(line(), shim="reference")
    with pytest.raises(InputError, match="no batches in epoch 2"):
        trainer.fit((line_batch(n) for n in (3, 4)), epochs=2)


def test_a_loss_that_is_not_finite_is_named_and_keeps_the_states():
    trainer = prepare_training(line(), shim="reference")
    batch, wrong = line_batch(), line_batch()
    wrong["t"][1] = np.nan
    with pytest.raises(NonFiniteError, match="result 'loss' is not finite in step 2 of epoch 1"):
        trainer.fit([batch, wrong], check_numerics=True)
    assert trainer.state()["steps"] == 1 and np.isfinite(trainer.state()["w"]).all()
    assert np.isnan(trainer.step(wrong)["loss"])


def test_load_state_is_all_or_nothing():
    trainer = prepare_training(line(), shim="reference")
    good = np.zeros((2, 1), np.float32)
    for wrong, message in (({"v": good}, "no state 'v'"), ({"steps": np.int32(1)}, "'steps' is int64")):
        with pytest.raises(InputError, match=message):
            trainer.load_state(dict({"w": good}, **wrong))
    assert trainer.state()["w"][0] == 1
    trainer.load_state({"w": good})
    assert not trainer.state()["w"].any()


def test_a_resumed_training_equals_one_that_was_not_interrupted(tmp_path):
    data, path = line_batch(10), tmp_path / "run.checkpoint"
    whole = prepare_training(line(), shim="reference")
    whole.fit(data, epochs=3, batch_size=3)

    def interrupt(progress):
        if (progress.epoch, progress.step, progress.is_epoch_end) == (2, 2, False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_training(line(), shim="reference").fit(
            data, epochs=3, batch_size=3, callbacks=[interrupt], checkpoint=path
        )
    resumed = prepare_training(line(), shim="reference")
    resumed.load_checkpoint(path)
    assert resumed.position == (1, 2)
    assert [progress.epoch for progress in resumed.fit(data, epochs=3, batch_size=3, resume=True)] == [2, 3]
    for name, array in whole.state().items():
        np.testing.assert_array_equal(resumed.state()[name], array)


def test_callbacks_see_each_step_and_end_the_training():
    seen = []
    trainer = prepare_training(line(), shim="reference")

    def callback(progress):
        seen.append((progress.epoch, progress.step, progress.is_epoch_end))
        return progress.is_epoch_end and progress.epoch == 2

    completed = trainer.fit(line_batch(5), epochs=9, batch_size=3, callbacks=[callback], validation=line_batch(2))
    assert seen == [(1, 1, False), (1, 2, False), (1, 2, True), (2, 1, False), (2, 2, False), (2, 2, True)]
    assert [progress.epoch for progress in completed] == [1, 2] and completed[0].validation["loss"] > 0


CHECKPOINTS = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "a flipped byte": lambda content: content[:300] + bytes([content[300] ^ 255]) + content[301:],
    "another file": lambda content: b"{}",
}


@pytest.mark.parametrize("name", sorted(CHECKPOINTS))
def test_a_damaged_checkpoint_is_refused_and_keeps_the_states(name, tmp_path):
    trainer = prepare_training(line(), shim="reference")
    trainer.step(line_batch())
    path = tmp_path / "run.checkpoint"
    trainer.save_checkpoint(path)
    path.write_bytes(CHECKPOINTS[name](path.read_bytes()))
    foreign = prepare_training(line(), shim="reference")
    with pytest.raises(InputError, match="checkpoint"):
        foreign.load_checkpoint(path)
    assert foreign.state()["steps"] == 0


def test_a_checkpoint_of_another_model_or_of_no_trainer_is_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    trainer = prepare_training(line(), shim="reference")
    with pytest.raises(InputError, match="there is no checkpoint"):
        trainer.load_checkpoint(path)
    foreign = line()
    foreign.training_info[0].update_binding.pop()
    foreign.training_info[0].initialization_binding.pop()
    prepare_training(foreign, shim="reference").save_checkpoint(path)
    with pytest.raises(InputError, match="another model"):
        trainer.load_checkpoint(path)
    np.savez(tmp_path / "arrays.npz", w=np.zeros(3))
    with pytest.raises(InputError, match="is no checkpoint"):
        trainer.load_checkpoint(tmp_path / "arrays.npz")


def test_a_failed_write_keeps_the_checkpoint(tmp_path, monkeypatch):
    trainer = prepare_training(line(), shim="reference")
    path = tmp_path / "run.checkpoint"
    trainer.save_checkpoint(path)
    content = path.read_bytes()
    trainer.step(line_batch())

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match="No space left"):
        trainer.save_checkpoint(path)
    assert path.read_bytes() == content and [file.name for file in tmp_path.iterdir()] == ["run.checkpoint"]


def test_a_model_without_training_information_is_refused():
    with pytest.raises(InvalidModelError, match="make_trainable"):
        step_model(relu_model())
