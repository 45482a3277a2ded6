"""A model prepared on a shim: it checks what it is fed, records the model for what that turns out to need, and runs it.

Usually the model is recorded once, when it is prepared. It is recorded again, and the result kept, only for what a
program cannot leave open: the values of an input that an operator needs to be known, the rank of an input that the
model leaves unknown, the length of a sequence.
"""

import functools
import threading
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple, Union

from onnx_compat.discovery import selection
from onnx_compat.errors import NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.execution.feeds import Feed, InputForm, MapItems, check_feed, input_form, to_public_value
from onnx_compat.execution.partition import PartitionedPlan, cut_parts, enclosing_nodes, is_indivisible
from onnx_compat.execution.plan import CompiledPlan, ImmediatePlan, Specialisation, trace_model
from onnx_compat.execution.support import survey
from onnx_compat.model import Model, TensorType, ValueInfo, load
from onnx_compat.shim.emission import check_primitives
from onnx_compat.shim.interface import Shim, declared_natives
from onnx_compat.tracing.interpreter import Interpreter

__all__ = ["Outputs", "Runnable", "prepare", "run"]

Inputs = Union[Mapping[str, Any], Sequence[Any]]
#: An input of more elements than this is not made part of a program: it is data.
_SPECIALISE_UP_TO = 4096


class Outputs(List[Any]):
    """A list of outputs in the order of the graph, which is also indexed by name.

    Attributes:
        names: The names of the outputs.

    Examples:
        >>> outputs = onnx_compat.run("digits.onnx", [np.zeros((1, 1, 28, 28), np.float32)], shim="reference")
        >>> outputs["scores"] is outputs[0], outputs.names
        (True, ('scores',))
    """

    def __init__(self, values: Sequence[Any], names: Sequence[str]) -> None:
        super().__init__(values)
        self.names = tuple(names)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError("there is no output '%s'; the outputs are %s" % (key, list(self.names)))
            return super().__getitem__(self.names.index(key))
        return super().__getitem__(key)

    def as_dict(self) -> Dict[str, Any]:
        """Return the outputs as a dict by name."""
        return dict(zip(self.names, self))


class Runnable:
    """A model that is prepared for a shim. `prepare` returns it.

    `run` may be called any number of times, with any sizes that the model leaves open, and by several threads at once.
    Plans are made under a lock, and a run keeps the plan that fits its own inputs.

    Attributes:
        model: The model.
        device: The resolved device, or None.
        inputs: The declared inputs: name and type.
        outputs: The declared outputs: name and type.

    Examples:
        >>> runnable = onnx_compat.prepare("digits.onnx", shim="reference")
        >>> [runnable.run([np.zeros((n, 1, 28, 28), np.float32)])["scores"].shape for n in (1, 3)]
        [(1, 10), (3, 10)]
        >>> runnable.traces, runnable.fallbacks
        (1, [])
    """

    def __init__(self, model: Model, shim: Shim, device: Optional[str], natives: bool, fallback: bool) -> None:
        self.model = model
        #: The device as the shim names it; None: the framework's own choice. The fallback runs on the CPU.
        self.device = shim.resolve_device(device)
        self._shim = shim
        self._natives = natives
        self._fallback = fallback
        self._by_value: FrozenSet[str] = frozenset()  # the inputs that it is specialised on, by their values
        self._by_shape: FrozenSet[str] = frozenset()  # and by their sizes
        self._plans: Dict[Any, Any] = {}
        self._latest: Any = None  # the plan of which `native` tells; nothing runs by it
        self._planning = threading.RLock()
        graph = model.graph
        self.inputs: Tuple[ValueInfo, ...] = graph.inputs
        self.outputs: Tuple[ValueInfo, ...] = graph.outputs
        self._needed = [one.name for one in graph.required]
        self._prepare_ahead()

    # -- what the caller sees ------------------------------------------------------------------------------------------
    @property
    def shim(self) -> str:
        """The name of the shim that it runs on."""
        return self._shim.name

    @property
    def native(self) -> Any:
        """The object of the framework; None before the first plan, or if there are several objects."""
        latest = self._latest
        return latest.native if latest is not None else None

    @property
    def fallbacks(self) -> List[str]:
        """The names of the nodes that run outside the framework, as far as they are known."""
        return [name for plan in list(self._plans.values()) for name in plan.fallbacks]

    @property
    def fallback_reasons(self) -> Dict[str, str]:
        """The reason of each fallback, as text, by the name of the node."""
        return {name: str(error) for name, error in self.reasons.items()}

    @property
    def reasons(self) -> Dict[str, OnnxCompatError]:
        """The reason of each fallback, as an error, by the name of the node."""
        return {name: error for plan in list(self._plans.values()) for name, error in plan.reasons.items()}

    @property
    def traces(self) -> int:
        """The number of times that the framework has traced or compiled the model."""
        return sum(plan.traces for plan in list(self._plans.values()))

    def run(self, inputs: Inputs) -> Outputs:
        """Compute the outputs.

        Args:
            inputs: A dict by name, or a sequence in the order of the model: arrays, lists for sequences, dicts for maps,
                None for an empty optional.

        Returns:
            The outputs, by index and by name.

        Raises:
            InputError: An input is missing, or does not fit the model.
            UnsupportedError: A node cannot be run, and there is no fallback for it.
        """
        feed = check_feed(inputs, self.inputs, self._needed)
        try:
            values = self.run_checked(feed)
        except OnnxCompatError as error:
            raise error.at(shim=self.shim) from error.__cause__
        return Outputs([to_public_value(value) for value in values], [one.name for one in self.outputs])

    __call__ = run

    # -- plans ---------------------------------------------------------------------------------------------------------
    def run_checked(self, feed: Feed) -> List[Any]:
        """The same on values that were checked, and giving such (see `feeds`)."""
        forms = {name: input_form(value) for name, value in feed.items()}
        plan = self._plans.get(self._key(feed, forms)) or self._planned(feed, forms)
        while True:
            self._latest = plan
            try:
                return plan.run(feed)  # type: ignore[no-any-return]
            except UnsupportedError as error:
                # What is compiled for each shape anew (on JAX), or executed, may only now turn out not to be possible.
                if isinstance(plan, PartitionedPlan):
                    raise
                plan = self._replaced(plan, feed, forms, error)

    def _planned(self, feed: Feed, forms: Dict[str, InputForm]) -> Any:
        """The plan for this feed: made here, unless another thread has made it meanwhile."""
        with self._planning:
            key = self._key(feed, forms)
            if key not in self._plans:
                plan = self._plan(feed, forms)
                key = self._key(feed, forms)  # it may have turned out that values matter
                self._plans[key] = plan
            return self._plans[key]

    def _replaced(self, plan: Any, feed: Feed, forms: Dict[str, InputForm], error: UnsupportedError) -> Any:
        """The plan in the place of one that could not run, unless another thread has replaced it already."""
        with self._planning:
            key = self._key(feed, forms)
            if self._plans.get(key) in (None, plan):
                eager = isinstance(plan, CompiledPlan)
                self._plans[key] = self._otherwise(forms, self._fixing(feed), error, eager)
            return self._plans[key]

    def _key(self, feed: Feed, forms: Dict[str, InputForm]) -> Any:
        """What a plan is good for: the structure of the inputs, and what it is specialised on."""
        values = tuple((name, _digest(feed[name])) for name in sorted(self._by_value) if name in feed)
        shapes = tuple((name, _shape(feed[name])) for name in sorted(self._by_shape) if name in feed)
        return tuple(sorted(forms.items())), values, shapes

    def _prepare_ahead(self) -> None:
        """Record and compile now if the model says all that is needed; else at the first run."""
        forms: Dict[str, InputForm] = {}
        for one in self.model.graph.required:
            if not isinstance(one.type, TensorType) or one.type.shape is None or one.type.dtype is None:
                return
            forms[one.name] = InputForm("tensor", one.type.dtype, len(one.type.shape))
        plan = self._plan(None, forms)
        if plan is not None:
            self._plans[self._key({}, forms)] = self._latest = plan

    def _plan(self, feed: Optional[Feed], forms: Dict[str, InputForm]) -> Any:
        """A plan for inputs of this form. Ahead of time, without a feed, one that needs values is left for later."""
        while True:
            fixed = self._fixing(feed)
            try:
                return self._compiled(forms, fixed)
            except NeedsKnownError as error:
                more = (error.values - self._by_value) | (error.sizes - self._by_shape - self._by_value)
                if more and (feed is None or all(_small(feed[name]) for name in error.values)):
                    self._by_value |= error.values
                    self._by_shape |= error.sizes
                    if feed is None:
                        return None
                    continue
                if feed is None:
                    return None
                return self._otherwise(forms, fixed, error)
            except UnsupportedError as error:
                return self._otherwise(forms, fixed, error, eager=False)

    def _fixing(self, feed: Optional[Feed]) -> Specialisation:
        if feed is None:
            return Specialisation()
        values = {name: feed[name] for name in self._by_value if name in feed}
        shapes = {name: _shape(feed[name]) for name in self._by_shape if name in feed and name not in values}
        return Specialisation(values, {name: shape for name, shape in shapes.items() if shape is not None})

    def _compiled(self, forms: Dict[str, InputForm], fixed: Specialisation) -> CompiledPlan:
        emitter = self._shim.emitter()
        made = trace_model(
            self.model, emitter, forms, fixed, Interpreter(declared_natives(emitter) if self._natives else None)
        )
        check_primitives(made.program.region, emitter)
        compiled = self._shim.compile(made.program, self.device) if made.program.region.outputs else None
        return CompiledPlan(made, compiled, fixed)

    def _otherwise(
        self, forms: Dict[str, InputForm], fixed: Specialisation, error: UnsupportedError, eager: bool = True
    ) -> Union[ImmediatePlan, PartitionedPlan]:
        """A plan for what the compiled form cannot express: step by step where only a value is not known in time and
        the framework can go step by step; else in parts, around the nodes that the shim cannot do.
        """
        failed = dict(survey(self.model, self._shim, forms, fixed, self._natives).failed)
        needing = {name for name, why in failed.items() if isinstance(why, NeedsKnownError)}
        if eager and len(needing) == len(failed) and self._shim.executor(self.device) is not None:
            return ImmediatePlan(self.model, functools.partial(self._shim.executor, self.device))
        if error.node is not None and error.node not in failed:
            failed[error.node] = error
            if isinstance(error, NeedsKnownError):
                needing.add(error.node)
        failed.pop("", None)
        if not failed:  # the model as a whole was refused
            failed = {node.name: error for node in self.model.graph.nodes}
        return self._partitioned({n: why for n, why in failed.items() if n not in needing}, needing, error)

    def _partitioned(
        self, failed: Dict[str, OnnxCompatError], staged: Set[str], error: OnnxCompatError
    ) -> PartitionedPlan:
        graph = self.model.graph
        if not self._fallback and failed:
            raise error
        failing, staging = enclosing_nodes(graph, failed), enclosing_nodes(graph, staged)
        if failing and is_indivisible(graph):
            failing = {node.name for node in graph.nodes}
        parts = cut_parts(graph, failing, staging)
        if len(parts) <= 1 and not failing:  # nothing is won by cutting
            if not (self._fallback and staging):
                raise error
            failed, parts = dict.fromkeys(staging, error), cut_parts(graph, staging, set())
        return PartitionedPlan(self.model, parts, self._part, failed)

    def _part(self, model: Model, fallback: bool) -> Any:
        if fallback:
            return fallback_runnable(model)
        return Runnable(model, self._shim, self.device, self._natives, self._fallback)


def _small(value: Any) -> bool:
    if isinstance(value, MapItems):
        return _small(value.keys)
    return isinstance(value, tuple) and value[0].size <= _SPECIALISE_UP_TO


def _digest(value: Any) -> Any:
    if isinstance(value, MapItems):
        return _digest(value.keys), _digest(value.values)
    if not isinstance(value, tuple):
        return repr(value)
    array = value[0]
    return array.shape, array.tobytes() if array.dtype != object else tuple(array.reshape(-1))


def _shape(value: Any) -> Any:
    return tuple(value[0].shape) if isinstance(value, tuple) else None


def prepare(
    model: Any, shim: Optional[str] = None, device: Optional[str] = None, natives: bool = True, fallback: bool = True
) -> Runnable:
    """Prepare a model to run on a shim.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        shim: The name of the shim: "tf2", "tf1", "keras", "tflite" or "reference". None selects the first that works.
        device: The device of the framework: "cpu", "gpu", "cuda:1". None lets the framework choose.
        natives: Whether methods of the shim for whole operators are used; False uses composed meanings only.
        fallback: Whether nodes that the shim cannot do may run outside the framework.

    Returns:
        The prepared model.

    Raises:
        ShimError: The shim is not installed or does not work, or the device is absent; the error lists the devices.
        InvalidModelError: The model is not valid.
        UnsupportedError: A node cannot be run, or needs a fallback and `fallback` is False.

    Examples:
        >>> runnable = onnx_compat.prepare("digits.onnx", shim="reference")
        >>> runnable.run({"image": np.zeros((2, 1, 28, 28), np.float32)})["scores"].shape
        (2, 10)
    """
    if not isinstance(model, Model):
        model = load(model)
    decision = selection.decide(shim)
    try:
        return Runnable(model, selection.find(decision.name), device, natives, fallback)
    except OnnxCompatError as error:
        raise error.at(shim=decision.name) from error.__cause__


def run(model: Any, inputs: Inputs, shim: Optional[str] = None, device: Optional[str] = None) -> Outputs:
    """Prepare a model and run it once.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        inputs: A dict by name, or a sequence in the order of the model.
        shim: The name of the shim. None selects the first that works.
        device: The device of the framework; see `prepare`.

    Returns:
        The outputs, by index and by name.

    Raises:
        OnnxCompatError: As `prepare` and `Runnable.run`.

    Examples:
        >>> onnx_compat.run("digits.onnx", [np.zeros((1, 1, 28, 28), np.float32)], shim="reference")["scores"].shape
        (1, 10)
    """
    return prepare(model, shim, device).run(inputs)
