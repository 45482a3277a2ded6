"""Runnable: a model prepared on a shim. It validates its inputs, records the model, and runs the plan that fits them.

Usually the model is recorded once, when it is prepared. It is recorded again, and the plan is cached, for inputs with
other properties that a program cannot leave open. These are values and sizes that an operator needs as constants,
undeclared ranks and dtypes, the lengths of sequences, and the presence of optionals. Of these plans, the 32 that were
used last are kept.
"""

import functools
import threading
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple, Union

from onnx_compat.boundary import typed_errors
from onnx_compat.discovery.selection import ONNX, REFERENCE
from onnx_compat.errors import NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.execution import declarations
from onnx_compat.execution.fallback import PartRunner, fallback_runnable
from onnx_compat.execution.feeds import CheckedValue, Feed, InputStructure, check_feed, structure_of, to_public_value
from onnx_compat.execution.outputs import Outputs, own_arrays
from onnx_compat.execution.partition import PartitionedPlan, cut_parts, enclosing_nodes, is_indivisible
from onnx_compat.execution.plan import CompiledPlan, ImmediatePlan, Specialisation, trace_model
from onnx_compat.execution.plan_cache import PlanCache
from onnx_compat.execution.plan_key import PlanKey, can_specialise_on, is_flag, plan_key, shapes_to_fix, values_to_fix
from onnx_compat.execution.summary import summarize
from onnx_compat.execution.support import survey
from onnx_compat.model import Model, TensorType, ValueInfo
from onnx_compat.shim.emission import check_primitives
from onnx_compat.shim.forks import ForkGuard
from onnx_compat.shim.interface import Shim
from onnx_compat.tracing.interpreter import Interpreter

__all__ = ["Inputs", "Outputs", "Runnable"]

#: The inputs of a run: a dict by name, a sequence in the order of the model, or the array of the only input.
Inputs = Union[Mapping[str, Any], Sequence[Any], Any]
Plan = Union[CompiledPlan, ImmediatePlan, PartitionedPlan]


class Runnable:
    """A model that is prepared for a shim. `prepare` returns it.

    `run` may be called any number of times, by several threads at once, with any sizes that the model leaves open.

    The arguments of the constructor are those of `prepare`, with a loaded model and a `Shim`.

    Attributes:
        model: The model.
        device: The resolved device, or None if the framework chooses.
        inputs: The declared inputs: name and type.
        outputs: The declared outputs: name and type.

    Examples:
        >>> runnable = onnx_compat.prepare("digits.onnx", shim="reference")
        >>> [runnable.run([np.zeros((n, 1, 28, 28), np.float32)])["scores"].shape for n in (1, 3)]
        [(1, 10), (3, 10)]
        >>> runnable.traces, runnable.fallbacks
        (1, [])
    """

    def __init__(
        self, model: Model, shim: Shim, device: Optional[str], natives: bool, fallback: bool, trusted: bool = True
    ) -> None:
        """Prepare the model ahead, if its declarations allow it. Raises as `prepare` does.

        - natives, fallback: as for `prepare`.
        - trusted: whether onnxruntime may run parts of the fallback in this process at once.
        """
        self._guard = ForkGuard(shim)
        self.model = model
        #: The device as the shim names it. None: the framework chooses. The fallback runs on the CPU.
        self.device = shim.resolve_device(device)
        self._shim = shim
        self._natives = natives
        self._fallback = fallback
        self._by_value: FrozenSet[str] = frozenset()  # the inputs whose values the plans are specialised on
        self._by_shape: FrozenSet[str] = frozenset()  # the inputs whose shapes the plans are specialised on
        self._by_empty: FrozenSet[str] = (
            frozenset()
        )  # the inputs whose shapes they are specialised on if they are empty
        self._plans = PlanCache()
        self._trusted = trusted
        self._has_failed = False  # a plan failed in a run, although the model could be traced
        self._latest: Optional[Plan] = None  # the plan whose object `native` returns; no run reads it
        self._planning = threading.RLock()
        graph = model.graph
        self.inputs: Tuple[ValueInfo, ...] = graph.inputs
        self.outputs: Tuple[ValueInfo, ...] = graph.outputs
        self._needed = [port.name for port in graph.required]
        self._shared_sizes = declarations.shared_sizes(graph.inputs)
        self._has_warned = False
        self._prepare_ahead()

    # -- public interface ----------------------------------------------------------------------------------------------
    @property
    def shim(self) -> str:
        """The name of the shim that the model runs on."""
        return self._shim.name

    @property
    def native(self) -> Any:
        """The framework's object of the plan that ran last, or that `prepare` made. None if it has no single object."""
        latest = self._latest
        return latest.native if latest is not None else None

    @property
    def fallbacks(self) -> List[str]:
        """The names of the nodes that run outside of the framework, for each plan that is kept. Names can repeat."""
        return [name for plan in list(self._plans.values()) for name in plan.fallbacks]

    @property
    def fallback_reasons(self) -> Dict[str, str]:
        """Node name -> why the node runs outside of the framework, as text, in the plans that are kept."""
        return {name: str(error) for name, error in self.reasons.items()}

    @property
    def reasons(self) -> Dict[str, OnnxCompatError]:
        """Node name -> the error for which the node runs outside of the framework, in the plans that are kept."""
        return {name: error for plan in list(self._plans.values()) for name, error in plan.reasons.items()}

    @property
    def fallback_runtimes(self) -> Dict[str, str]:
        """Node name -> what ran the node outside of the framework last, or will run it, in the plans that are kept.

        - "onnxruntime": onnxruntime, with the node as it is.
        - "onnx": onnxruntime, with the node as the shim `onnx` writes it for the installed onnxruntime.
        - "reference": the reference.

        A node has an entry once its types are known: after the first run.
        """
        plans = list(self._plans.values())
        return {name: runtime for plan in plans for name, runtime in plan.fallback_runtimes.items()}

    @property
    def traces(self) -> int:
        """The number of times that the framework traced or compiled the model, in the plans that are kept.

        It is 0 if the model was only executed.
        """
        return sum(plan.traces for plan in list(self._plans.values()))

    @typed_errors
    def run(self, inputs: Inputs) -> Outputs:
        """Compute the outputs.

        Inputs may contradict declarations that onnxruntime does not enforce, such as one size name for two sizes. The
        first such run warns (RuntimeWarning).

        Args:
            inputs: A dict by name, or a sequence in the order of the model: arrays, lists for sequences, dicts for
                maps, None for an empty optional, or for an input that has a default or that nodes may omit. The array
                of the only input may be given by itself.

        Returns:
            The outputs, by index and by name. Their arrays belong to the caller, who may change them in place.

        Raises:
            InputError: An input is missing, or does not fit the model.
            InvalidModelError: A node is invalid, in any case or for these inputs.
            UnsupportedError: A node cannot be run, and there is no fallback for it. Or ONNX lacks the dtype of an
                array.
        """
        self._guard.enter(self._renew)
        contradictions: List[str] = []
        feed = check_feed(inputs, self.inputs, self._needed, contradictions)
        if contradictions and not self._has_warned:
            self._has_warned = True
            declarations.warn_of_contradictions(contradictions)
        try:
            values = self.run_checked(feed)
        except OnnxCompatError as error:
            error = declarations.omitted_input_error(error, feed, self.model.graph) or error
            raise error.at(shim=self.shim) from error.__cause__
        outputs = own_arrays((to_public_value(value) for value in values), feed)
        return Outputs(outputs, [port.name for port in self.outputs])

    __call__ = run

    def __repr__(self) -> str:
        name = self.model.path or self.model.graph.name
        return summarize(
            "Runnable", name, self.shim, self.model.inputs, self.outputs, self.device, len(set(self.fallbacks))
        )

    def __reduce__(self) -> Any:
        """Pickle the model and the options: an unpickled Runnable is prepared again, on the shim of the same name.

        Pickling raises UnsupportedError for a model of more than 2 GB. Unpickling raises as `prepare` does.
        """
        from onnx_compat.execution.prepare import prepare

        return prepare, (self.model, self.shim, self.device, self._natives, self._fallback)

    def _renew(self) -> object:
        """Drop and return the plans that the parent of this forked process has made. Runs make new plans."""
        plans = self._plans, self._latest
        self._plans, self._latest, self._planning = PlanCache(), None, threading.RLock()
        return plans

    # -- plans ---------------------------------------------------------------------------------------------------------
    def run_checked(self, feed: Feed) -> List[CheckedValue]:
        """Run the plan for a feed. Return a list of the checked outputs.

        The plan is made and cached when a feed first needs it. If a plan raises UnsupportedError, another plan replaces
        it and runs (see `_replace_plan`). This repeats until a plan runs.

        Raises the UnsupportedError of a PartitionedPlan, and any other error of a plan. Raises the errors of
        `_replace_plan` too.
        """
        structures = {name: structure_of(value) for name, value in feed.items()}
        plan: Plan = self._plans.get(self._key(feed, structures)) or self._plan_for(feed, structures)
        while True:
            self._latest = plan
            try:
                return plan.run(feed)
            except UnsupportedError as error:
                # Keras on JAX compiles at each new shape, and an executor runs each operator: both may fail this late.
                if isinstance(plan, PartitionedPlan):
                    raise
                plan = self._replace_plan(plan, feed, structures, error)

    def _plan_for(self, feed: Feed, structures: Dict[str, InputStructure]) -> Plan:
        """Return the plan for a feed. Make and cache it, unless another thread has made it meanwhile.

        Raises the errors of `_make_plan`.
        """
        with self._planning:
            key = self._key(feed, structures)
            plan: Optional[Plan] = self._plans.get(key)
            if plan is None:
                plan = self._make_plan(feed, structures)
                key = self._key(feed, structures)  # `_make_plan` may have added inputs to specialise on
                assert plan is not None
                self._plans[key] = plan
            return plan

    def _replace_plan(
        self, plan: Plan, feed: Feed, structures: Dict[str, InputStructure], error: UnsupportedError
    ) -> Plan:
        """Return the plan that runs in place of `plan`, whose run for `feed` raised `error`. Cache it.

        - `plan` is compiled, and inputs behind the conditions of its branches can be fixed (see
          `_specialise_on_conditions`): a plan for the values of these inputs. The cause: a branch that is not taken may
          have failed.
        - Otherwise: a plan that is not compiled. If another thread has replaced `plan` meanwhile: its plan.

        Raises the errors of `_plan_for` and `_uncompiled_plan`.
        """
        with self._planning:
            if isinstance(plan, CompiledPlan) and self._specialise_on_conditions(plan, feed):
                return self._plan_for(feed, structures)
            key = self._key(feed, structures)
            self._has_failed = True
            current: Optional[Plan] = self._plans.get(key)
            if current is None or current is plan:
                eager = isinstance(plan, CompiledPlan)
                current = self._uncompiled_plan(structures, self._specialisation(feed), error, eager)
                self._plans[key] = current
            return current

    def _specialise_on_conditions(self, plan: CompiledPlan, feed: Feed) -> bool:
        """Add the inputs behind the conditions of a plan to those that plans are specialised on.

        Return whether an input was added. No input is added if a condition depends on the elements of an input which is
        no single element (see `is_flag`): that input is data.
        """
        values, sizes = plan.traced.condition_values, plan.traced.condition_sizes
        if values | sizes <= self._by_value | self._by_shape or not all(is_flag(feed[name]) for name in values):
            return False
        self._by_value, self._by_shape = self._by_value | values, self._by_shape | sizes
        return True

    def _key(self, feed: Feed, structures: Dict[str, InputStructure]) -> PlanKey:
        shapes = shapes_to_fix(feed, self._by_shape, self._by_empty)
        return plan_key(feed, structures, self._by_value, shapes, self._shared_sizes)

    def _prepare_ahead(self) -> None:
        """Make and cache the first plan, if all required inputs are tensors of declared dtype and rank.

        No plan is cached if it needs values of a run. Raises the errors of `_make_plan`.
        """
        structures: Dict[str, InputStructure] = {}
        for port in self.model.graph.required:
            if not isinstance(port.type, TensorType) or port.type.shape is None or port.type.dtype is None:
                return
            structures[port.name] = InputStructure("tensor", port.type.dtype, len(port.type.shape))
        plan = self._make_plan(None, structures)
        if plan is not None:
            self._plans[self._key({}, structures)] = self._latest = plan

    def _make_plan(self, feed: Optional[Feed], structures: Dict[str, InputStructure]) -> Optional[Plan]:
        """Make a plan for inputs of the given structures. `feed`: the inputs of a run, or None to plan without values.

        If an operator needs a value that is not known, the inputs behind the value are added to `_by_value` and
        `_by_shape`. Without a feed, the result is then None. With a feed, the model is traced again for the values and
        shapes in the feed. The same happens for empty arrays that the program may be wrong for. If the values cannot be
        fixed (see `can_specialise_on`), or were fixed already, the plan is not compiled.

        Raises UnsupportedError if a node needs a fallback that is not allowed, or if the model can be neither compiled
        nor cut. Raises the other errors of the trace and of the shim.
        """
        while True:
            fixed = self._specialisation(feed)
            try:
                plan = self._compile(structures, fixed)
            except NeedsKnownError as error:
                more = (error.values - self._by_value) | (error.sizes - self._by_shape - self._by_value)
                if more and (feed is None or all(can_specialise_on(feed[name]) for name in error.values)):
                    self._by_value |= error.values
                    self._by_shape |= error.sizes
                    if feed is None:
                        return None
                    continue
                if feed is None:
                    return None
                return self._uncompiled_plan(structures, fixed, error)
            except UnsupportedError as error:
                return self._uncompiled_plan(structures, fixed, error, eager=False)
            self._by_empty |= plan.traced.nonempty
            if self._specialisation(feed).shapes == fixed.shapes:
                return plan

    def _specialisation(self, feed: Optional[Feed]) -> Specialisation:
        """Return the values and shapes that a plan for `feed` is specialised on, and the sizes that it ignores.

        It ignores the declared sizes that the feed contradicts. Without a feed, all fields are empty.
        """
        if feed is None:
            return Specialisation()
        values = values_to_fix(feed, self._by_value)
        shapes = shapes_to_fix(feed, self._by_shape - set(values), self._by_empty - set(values))
        return Specialisation(values, shapes, ignored_sizes=declarations.contradicted_sizes(feed, self._shared_sizes))

    def _compile(self, structures: Dict[str, InputStructure], fixed: Specialisation) -> CompiledPlan:
        """Trace and compile the model. Return its plan. A program without outputs (all are known) is not compiled.

        Raises UnsupportedError (NeedsKnownError too) if a node cannot be traced or compiled.
        """
        emitter = self._shim.emitter()
        traced = trace_model(
            self.model, emitter, structures, fixed, Interpreter(emitter.natives() if self._natives else None)
        )
        check_primitives(traced.program.region, emitter)
        try:
            compiled = self._shim.compile(traced.program, self.device) if traced.program.region.outputs else None
        except (OnnxCompatError, Warning):
            raise
        except Exception as error:  # the errors of frameworks have no common base
            reason = "the framework refused the program: %s: %s" % (type(error).__name__, error)
            raise UnsupportedError(reason, shim=self.shim) from error
        return CompiledPlan(traced, compiled, fixed)

    def _uncompiled_plan(
        self,
        structures: Dict[str, InputStructure],
        fixed: Specialisation,
        error: UnsupportedError,
        eager: bool = True,
    ) -> Union[ImmediatePlan, PartitionedPlan]:
        """Return a plan for a model that cannot be compiled as a whole, because of `error`. Raises as `_partition`.

        The plan is an ImmediatePlan if all of these conditions hold, otherwise a PartitionedPlan:

        - `eager` is True.
        - Every node that fails in a `survey` only needs a known value.
        - The framework can execute single operators.
        """
        failed = dict(survey(self.model, self._shim, structures, fixed, self._natives).failed)
        needing_values = {name for name, reason in failed.items() if isinstance(reason, NeedsKnownError)}
        if eager and len(needing_values) == len(failed) and self._shim.executor(self.device) is not None:
            return ImmediatePlan(self.model, functools.partial(self._shim.executor, self.device))
        if error.node is not None and error.node not in failed:
            failed[error.node] = error
            if isinstance(error, NeedsKnownError):
                needing_values.add(error.node)
        failed.pop("", None)
        if not failed:  # the error concerns the model as a whole
            failed = {node.name: error for node in self.model.graph.nodes}
        impossible = {name: reason for name, reason in failed.items() if name not in needing_values}
        return self._partition(impossible, needing_values, error)

    def _partition(
        self, failed: Dict[str, OnnxCompatError], staged: Set[str], error: OnnxCompatError
    ) -> PartitionedPlan:
        """Return a plan that runs the model in parts. Raises `error` if no such plan is possible or allowed.

        `failed`: node name -> error, for nodes that must run in the fallback. `staged`: names of nodes that need a
        value of an earlier part. If `failed` is empty and there is only one part, the nodes in `staged` run in the
        fallback. A model with a Gradient node is not cut: all its nodes run in the fallback.
        """
        graph = self.model.graph
        if not self._fallback and failed:
            raise error
        failing, staging = enclosing_nodes(graph, failed), enclosing_nodes(graph, staged)
        if (failing or staging) and is_indivisible(graph):
            if not self._fallback:
                raise error
            failed = failed or dict.fromkeys(staging, error)
            failing, staging = {node.name for node in graph.nodes}, set()
        parts = cut_parts(graph, failing, staging)
        if len(parts) <= 1 and not failing:  # the only part is the model itself, which failed
            if not (self._fallback and staging):
                raise error
            failed, parts = dict.fromkeys(staging, error), cut_parts(graph, staging, set())
        return PartitionedPlan(self.model, parts, self._prepare_part, failed)

    def _prepare_part(self, model: Model, fallback: bool) -> PartRunner:
        """Return an object that runs the model of a part: in the fallback if `fallback`, else on the shim."""
        if fallback:
            trusted = self._trusted and not self._has_failed
            return fallback_runnable(model, trusted, respells=self.shim not in (ONNX, REFERENCE))
        return Runnable(model, self._shim, self.device, self._natives, self._fallback, self._trusted)
