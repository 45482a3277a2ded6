"""Train a model with training information on a shim: `prepare_training` and the class `Trainer`."""

import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.destinations import Destination
from onnx_compat.errors import InputError, InvalidModelError, NonFiniteError
from onnx_compat.execution.outputs import Outputs
from onnx_compat.execution.prepare import prepare
from onnx_compat.execution.runnable import Runnable
from onnx_compat.model import ValueInfo, load
from onnx_compat.model.loading import ModelSource, StrPath
from onnx_compat.training.batches import Batch, Data, iterate_batches, size_of
from onnx_compat.training.checkpoint import Checkpoint, digest_of_states, read_checkpoint, write_checkpoint
from onnx_compat.training.initialization import initial_states
from onnx_compat.training.parts import StepPart, build_evaluation, build_prediction, build_step
from onnx_compat.training.progress import Callback, Mean, Progress, call_back, number_of
from onnx_compat.training.saving import inference_model, training_model
from onnx_compat.training.state_checks import check_array, check_batch_size, check_finite
from onnx_compat.training.tensors import array_of
from onnx_compat.training.training_info import TrainingInfo, read_training_info

__all__ = ["Trainer", "prepare_training"]


@typed_errors
def prepare_training(model: ModelSource, shim: Optional[str] = None, device: Optional[str] = None) -> "Trainer":
    """Prepare a model with training information to be trained on a shim.

    Args:
        model: A model that `make_trainable` returned, or another model with training information: a path, bytes, a
            ModelProto or a Model.
        shim: The name of the shim, as for `prepare`.
        device: The device of the framework, as for `prepare`.

    Returns:
        The trainer. Its states are the initializers of the model.

    Raises:
        InvalidModelError: The model or its training information is not valid.
        ShimError: The shim is not installed or does not work, or the device is absent.
        UnsupportedError: The step cannot be run.

    Examples:
        >>> from onnx_compat.training import make_trainable, prepare_training
        >>> model = make_trainable("digits.onnx", "sparse_categorical_crossentropy", "sgd")
        >>> prepare_training(model, shim="reference").shim
        'reference'
    """
    return Trainer(read_training_info(model), shim, device)


class Trainer:
    """A training of a model on a shim. `prepare_training` returns it.

    A step replaces the states only after it is complete: an error or Ctrl-C keeps the states of the step before.

    Attributes:
        inputs: The inputs of a step: name and type.
        results: The names of the results of a step, the loss first.
        position: (complete epochs, complete steps of the epoch after them) of the last `fit`.

    Examples:
        >>> from onnx_compat.training import make_trainable, prepare_training
        >>> model = make_trainable("digits.onnx", "sparse_categorical_crossentropy", "sgd")
        >>> trainer = prepare_training(model, shim="reference")
        >>> batch = {"image": np.zeros((2, 1, 28, 28), np.float32), "labels": np.array([3, 4])}
        >>> sorted(trainer.step(batch))
        ['loss']
    """

    def __init__(self, info: TrainingInfo, shim: Optional[str], device: Optional[str]) -> None:
        self._info = info
        self._shim_name, self._device_name = shim, device
        self._states: Dict[str, np.ndarray] = {name: array_of(tensor) for name, tensor in info.states.items()}
        self._digest = digest_of_states(info.states)
        self._step = _Prepared(build_step(info), shim, device)
        self._other_parts: Dict[str, _Prepared] = {}
        self.inputs: Tuple[ValueInfo, ...] = tuple(
            port for port in self._step.runnable.inputs if port.name not in info.states
        )
        self.results: Tuple[str, ...] = tuple(info.results)
        self.position: Tuple[int, int] = (0, 0)
        self._complete = self._states, self.position  # the states and the position after the last step of `fit`

    @property
    def shim(self) -> str:
        """The name of the shim that the training runs on."""
        return self._step.runnable.shim

    @property
    def device(self) -> Optional[str]:
        """The resolved device, or None if the framework chooses."""
        return self._step.runnable.device

    @property
    def native(self) -> Any:
        """The framework's object of the step that ran last, as `Runnable.native`."""
        return self._step.runnable.native

    @property
    def fallbacks(self) -> List[str]:
        """The names of the nodes of the step that run outside of the framework."""
        return self._step.runnable.fallbacks

    # -- run -----------------------------------------------------------------------------------------------------------
    @typed_errors
    def step(self, batch: Batch, check_numerics: bool = False) -> Dict[str, Any]:
        """Run one step: compute the results and replace the states.

        Args:
            batch: Input name -> array.
            check_numerics: Whether a result or a state that is not finite raises NonFiniteError.

        Returns:
            Result name -> number; an array for a result that is no scalar.

        Raises:
            InputError: The batch does not fit the inputs. The states are unchanged.
            NonFiniteError: A value is not finite. The states are unchanged.
        """
        part, outputs = self._run(self._step, batch)
        results = {result: number_of(outputs[name]) for result, name in part.results.items()}
        states = {state: outputs[name] for state, name in part.updates.items()}
        for name, array in states.items():
            check_array(self._info, name, array, InvalidModelError)
        if check_numerics:
            check_finite(results, states)
        self._states = {**self._states, **states}
        return results

    @typed_errors
    def evaluate(self, data: Data, batch_size: int = 32) -> Dict[str, Any]:
        """Compute the results in inference mode, without changing a state.

        Args:
            data: Whole arrays by name, which are cut into batches, or an iterable of batches.
            batch_size: The number of examples in a batch of whole arrays.

        Returns:
            Result name -> mean over the examples.

        Raises:
            InputError: The data does not fit the inputs.
        """
        prepared = self._find_part("evaluation", build_evaluation)
        mean = Mean()
        for batch in iterate_batches(data, self._input_names(), check_batch_size(batch_size), None, 0):
            part, outputs = self._run(prepared, batch)
            mean.add({result: number_of(outputs[name]) for result, name in part.results.items()}, size_of(batch))
        return mean.results()

    @typed_errors
    def predict(self, inputs: Batch) -> Dict[str, np.ndarray]:
        """Run the main graph with the current states. Return output name -> array.

        Args:
            inputs: Input name -> array, for the inputs of the main graph.

        Raises:
            InputError: The inputs do not fit the model.
        """
        part, outputs = self._run(self._find_part("prediction", build_prediction), inputs)
        return {result: outputs[name] for result, name in part.results.items()}

    @typed_errors
    def fit(
        self,
        data: Data,
        epochs: int = 1,
        batch_size: int = 32,
        seed: Optional[int] = 0,
        validation: Optional[Data] = None,
        callbacks: Sequence[Callback] = (),
        check_numerics: bool = False,
        checkpoint: Optional[StrPath] = None,
        resume: bool = False,
    ) -> List[Progress]:
        """Run the steps of several epochs.

        Args:
            data: Whole arrays by name, which are cut into batches, or an iterable of batches. The iterable must start
                again for each epoch.
            epochs: The number of epochs.
            batch_size: The number of examples in a batch of whole arrays. The last batch of an epoch may be smaller.
            seed: Shuffles whole arrays, in another order for each epoch. None: the order of the arrays.
            validation: Data that are evaluated after each epoch.
            callbacks: Functions that are called with a `Progress` after each step and each epoch. If one returns True,
                the training ends.
            check_numerics: As for `step`.
            checkpoint: The path of a checkpoint that is written after each epoch, and if the training is interrupted.
            resume: Whether to continue at `position`, which `load_checkpoint` sets.

        Returns:
            The progress at the end of each complete epoch.

        Raises:
            InputError: The data does not fit the inputs, or the checkpoint cannot be written.
            NonFiniteError: A value is not finite, with `check_numerics`.
        """
        if not resume:
            self.position = (0, 0)
        self._complete = self._states, self.position
        batch_size, completed = check_batch_size(batch_size), []
        try:
            while self.position[0] < epochs:
                batches = iterate_batches(data, self._input_names(), batch_size, seed, self.position[0])
                progress = self._run_epoch(batches, callbacks, check_numerics, validation, batch_size)
                if progress is None:
                    break
                completed.append(progress)
                if checkpoint is not None:
                    self.save_checkpoint(checkpoint)
                if call_back(callbacks, progress):
                    break
        except KeyboardInterrupt:  # it may have come between the new states and the new position
            self._states, self.position = self._complete
            if checkpoint is not None:
                self.save_checkpoint(checkpoint)
            raise
        return completed

    def _run_epoch(
        self,
        batches: Iterable[Batch],
        callbacks: Sequence[Callback],
        check_numerics: bool,
        validation: Optional[Data],
        batch_size: int,
    ) -> Optional[Progress]:
        """Run the steps of one epoch from `position` on. Return the progress at its end; None if a callback ends it.

        The arguments are those of `fit`; `check_numerics`: whether a value that is not finite raises NonFiniteError.
        """
        mean = Mean()
        epoch, first = self.position
        for k, batch in enumerate(batches):
            if k < first:
                continue
            try:
                results = self.step(batch, check_numerics)
            except NonFiniteError as error:
                error.reason += " in step %d of epoch %d" % (k + 1, epoch + 1)
                raise
            self._complete = self._states, (epoch, k + 1)
            self.position = self._complete[1]
            mean.add(results, size_of(batch))
            progress = Progress(epoch + 1, k + 1, results, None, False)
            if call_back(callbacks, progress):
                return None
        steps = self.position[1]
        self._complete = self._states, (epoch + 1, 0)
        self.position = self._complete[1]
        evaluated = None if validation is None else self.evaluate(validation, batch_size)
        return Progress(epoch + 1, steps, mean.results(), evaluated, True)

    def _run(self, prepared: "_Prepared", batch: Batch) -> Tuple[StepPart, Outputs]:
        """Run a part with the current states. Return it with its outputs. Raises InputError for a wrong batch."""
        if not isinstance(batch, Mapping):
            raise InputError("a batch is a dict by name, not a %s" % type(batch).__name__)
        names = [name for name in batch if name in self._info.states]
        if names:
            raise InputError(
                "the batch has the state '%s'" % names[0], hint="set the values of states by load_state(...)"
            )
        feed = dict(batch)
        feed.update((state, self._states[state]) for state in prepared.part.states)
        return prepared.part, prepared.runnable.run(feed)

    def _find_part(self, kind: str, build: Callable[[TrainingInfo], StepPart]) -> "_Prepared":
        if kind not in self._other_parts:
            self._other_parts[kind] = _Prepared(build(self._info), self._shim_name, self._device_name)
        return self._other_parts[kind]

    def _input_names(self) -> List[str]:
        """Return the names of the inputs that a batch must have."""
        return [port.name for port in self._step.runnable.model.inputs if port.name not in self._info.states]

    # -- states --------------------------------------------------------------------------------------------------------
    def state(self) -> Dict[str, np.ndarray]:
        """Return state name -> a copy of its array: parameters, running statistics and the state of the optimizer."""
        return {name: array.copy() for name, array in self._states.items()}

    @typed_errors
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace states. States that are not named stay.

        Args:
            state: State name -> array.

        Raises:
            InputError: A name is no state, or an array has another dtype or shape. No state is replaced then.
        """
        arrays = {name: np.array(array) for name, array in state.items()}
        for name, array in arrays.items():
            if name not in self._states:
                raise InputError(
                    "the model has no state '%s'" % name,
                    hint="it has: %s" % ", ".join("'%s'" % known for known in list(self._states)[:8]),
                )
            check_array(self._info, name, array, InputError)
        self._states.update(arrays)

    @typed_errors
    def initialize(self, seed: int = 0) -> None:
        """Set the states to their values before a training, by the initializations of the model.

        States without an initialization get the value of their initializer. The random numbers of the initializations
        are drawn by the reference, so they are the same on every shim.

        Args:
            seed: The seed of random operators that have no seed.
        """
        states = {name: array_of(tensor) for name, tensor in self._info.states.items()}
        for name, array in initial_states(self._info, seed).items():
            check_array(self._info, name, array, InvalidModelError)
            states[name] = array
        self._states, self.position = states, (0, 0)

    # -- files ---------------------------------------------------------------------------------------------------------
    @typed_errors
    def save(self, path: StrPath, training: bool = True) -> str:
        """Write the model with the current states as an ONNX file, atomically. Return its absolute path.

        Args:
            path: The path of the file.
            training: Whether the training information is written too. Otherwise the file holds the main graph alone.

        Raises:
            InputError: The path may not be written.
            UnsupportedError: The model has more bytes than an ONNX file can hold.
        """
        build = training_model if training else inference_model
        content = build(self._info, self._states)
        destination = Destination(path)
        with destination.scratch() as scratch:
            unfinished = os.path.join(scratch, "model.onnx")
            with open(unfinished, "wb") as stream:
                stream.write(content)
            destination.put(unfinished)
        return destination.path

    @typed_errors
    def save_checkpoint(self, path: StrPath) -> None:
        """Write the states and the position to a checkpoint. The file at `path` is replaced in one step.

        Raises:
            InputError: The path may not be written.
        """
        write_checkpoint(path, Checkpoint(self._states, self.position), self._digest)

    @typed_errors
    def load_checkpoint(self, path: StrPath) -> None:
        """Replace the states and the position by those of a checkpoint.

        Raises:
            InputError: The file is missing, damaged, or the checkpoint of another model. No state is replaced then.
        """
        checkpoint = read_checkpoint(path, self._digest)
        self.load_state(checkpoint.states)
        self.position = checkpoint.position

    def __repr__(self) -> str:
        return "<Trainer on %s: %d states, results %s>" % (self.shim, len(self._states), ", ".join(self.results))


class _Prepared:
    """A part of the training, prepared on a shim."""

    def __init__(self, part: StepPart, shim: Optional[str], device: Optional[str]) -> None:
        self.part = part
        self.runnable: Runnable = prepare(load(part.proto), shim, device)
