"""Bring an onnx.ModelProto to another opset and IR version, node by node, in place."""

from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat.errors import UnsupportedError
from onnx_compat.model.names import Names
from onnx_compat.model.protos import walk
from onnx_compat.model.versions import NEWEST, normalise
from onnx_compat.retarget import carried_sequences, formats, sequence_maps
from onnx_compat.retarget.calls import called_functions, describe_lost_parts, omitted_inputs
from onnx_compat.retarget.defaults import fix_defaults, needed_defaults, replaceable_inputs
from onnx_compat.retarget.inferred_facts import ModelFacts, NodeFacts, infer_facts
from onnx_compat.retarget.inlining import FunctionKey, function_key, inline_functions
from onnx_compat.retarget.outcomes import COMPOSED, KEPT, REFUSED, RESPELLED, NodeOutcome, RetargetPlan
from onnx_compat.retarget.protos import all_graphs, names_used
from onnx_compat.retarget.pruning import prune
from onnx_compat.retarget.rewriting import Composer, NodeGroup, Rewriter
from onnx_compat.retarget.targets import check_ir_version, target_opsets
from onnx_compat.retarget.training import model_of_training

if TYPE_CHECKING:
    import onnx

#: The repeated field `opset_import` of a ModelProto or FunctionProto.
OpsetImports = Any

__all__ = ["refusal_error", "retarget_in_place"]


def retarget_in_place(
    model: "onnx.ModelProto",
    opset: Optional[int] = None,
    ir_version: Optional[int] = None,
    inline: bool = False,
    compose: Optional[Composer] = None,
) -> RetargetPlan:
    """Bring a valid model to an opset and an IR version, in place. Return the plan: outcomes of nodes, and notes.

    - opset: the version of ai.onnx; None: every opset stays.
    - ir_version: the version of the file format. None: it follows from the opsets and the element types; without
      `opset`, it is not below that of the source.
    - inline: whether all functions are inlined. Otherwise a function stays if the target has functions, and if one body
      can be written for all calls.
    - compose: composes a node that no form of its operator expresses. None: such a node is refused.

    A refused node stays as it was, and is in the plan. Each use of an element type that the target lacks is refused
    too. Raises ConversionError for an opset or IR version that cannot be written.
    """
    source = _all_versions(model)
    target = target_opsets(source, opset)
    types = formats.element_types(model)
    requested_ir = None if ir_version is None else check_ir_version(ir_version)
    ir = (
        formats.ir_version_for(target, types, model.ir_version, opset is None) if requested_ir is None else requested_ir
    )
    refusals = formats.type_refusals(types, ir)
    source_ir = model.ir_version
    retargeting = _Retargeting(model, opset, source, target, compose)
    keys = [function_key(function) for function in model.functions]
    retargeting.expand_sequence_maps()
    if source.get("", 0) >= carried_sequences.BEGIN > target.get("", 0) >= carried_sequences.FIRST:
        retargeting.notes += carried_sequences.write_sequences_as_tensors(model, Names(names_used(model)))
    retargeting.inline({key for key in keys if inline or ir < formats.FUNCTIONS or (ir < formats.OVERLOADS and key[2])})
    outcomes = _merge(retargeting.run(), refusals)
    caveats = [entry for entry in outcomes if entry.outcome in (KEPT, RESPELLED) and entry.operators and entry.reason]
    notes = retargeting.notes + ["'%s' (%s): %s" % (entry.node, entry.operator, entry.reason) for entry in caveats]
    notes += formats.adapt_to_ir(model, ir)
    if opset is not None:
        notes += formats.declare_outputs(model)
    notes += formats.ignored_parts(model, ir)
    domains = sorted(domain for domain in source if domain in NEWEST)
    return RetargetPlan(
        {domain: (source[domain], target[domain]) for domain in domains}, (source_ir, ir), outcomes, notes
    )


def versions_of(imports: OpsetImports) -> Dict[str, int]:
    """Return domain -> version of `imports`. Without imports, as before IR version 3, version 1 of ai.onnx."""
    return {normalise(entry.domain): entry.version for entry in imports} or {"": 1}


def _all_versions(model: "onnx.ModelProto") -> Dict[str, int]:
    """Return domain -> version, for each domain that the model or one of its functions imports.

    If the model imports the domain, its version counts; otherwise the newest version that a function imports.
    """
    versions: Dict[str, int] = {}
    for function in model.functions:
        for entry in function.opset_import:
            domain = normalise(entry.domain)
            versions[domain] = max(entry.version, versions.get(domain, 0))
    return dict(versions, **versions_of(model.opset_import))


def _merge(outcomes: List[NodeOutcome], refusals: List[NodeOutcome]) -> List[NodeOutcome]:
    """Return the outcomes of nodes, with the refusals of element types.

    A refusal replaces the outcome of the same node. The refusals of initializers and declared values come first.
    """
    by_node = {(entry.node, entry.operator, entry.function): entry for entry in refusals}
    keys = [(entry.node, entry.operator, entry.function) for entry in outcomes]
    other_refusals = [by_node[key] for key in by_node.keys() - set(keys)]
    merged = [by_node.get(key, entry)._replace(opset=entry.opset) for key, entry in zip(keys, outcomes)]
    return sorted(other_refusals) + merged


def refusal_error(plan: RetargetPlan) -> UnsupportedError:
    """Return the error for the refused nodes of a plan: it names the first, and lists the others.

    The plan must have a refused node.
    """
    refused = [node for node in plan.nodes if node.outcome == REFUSED]
    first = refused[0]
    where = "'%s' (%s)" % (first.node, first.operator)
    reason = "%s cannot be written for %s: %s" % (where, _describe_target(plan), first.reason)
    if len(refused) > 1:
        lines = ["\n  '%s' (%s): %s" % (node.node, node.operator, node.reason) for node in refused[1:]]
        further = "another node" if len(lines) == 1 else "%d other nodes" % len(lines)
        reason += "\nnor can %s:%s" % (further, "".join(lines))
    hint = "choose a newer opset; a dry run (--dry-run) lists every node"
    return UnsupportedError(reason, hint=hint, node=first.node, operator=first.operator)


def _describe_target(plan: RetargetPlan) -> str:
    changes = [*plan.opsets.items(), ("IR version", plan.ir_version)]
    return ", ".join("%s %d" % (name or "opset", pair[1]) for name, pair in changes if pair[0] != pair[1])


def _drop_unused_domains(model: "onnx.ModelProto") -> None:
    """Remove from `model` the imports of domains that no node calls any more, except those of the standard."""
    sources = [graph.node for graph in all_graphs(model)] + [function.node for function in model.functions]
    used = {normalise(node.domain) for nodes in sources for node in walk(nodes)}
    for position in reversed(range(len(model.opset_import))):
        domain = normalise(model.opset_import[position].domain)
        if domain not in used and domain not in NEWEST:
            del model.opset_import[position]


class _Attempt(NamedTuple):
    """The result of computing the new nodes of a model. The model is not changed yet.

    - functions: the keys of the functions with a refused node.
    - training_refusal: the first node of a training graph that is refused.
    - versions: (imports, domain -> version that they get, domain -> version of composed nodes) of the model and of each
      function.
    """

    rewriter: Rewriter
    functions: Set[FunctionKey]
    training_refusal: Optional[NodeOutcome]
    versions: Sequence[Tuple[OpsetImports, Mapping[str, int], Mapping[str, int]]]


class _Retargeting:
    """Bring one model to other opsets, in place. The facts of nodes are inferred when a rule first needs them.

    - opset: the target version of ai.onnx; None: every opset stays.
    - source, target: domain -> version, of the domains that the model or a function imports. The attribute `target` has
      ai.onnx too, for composed nodes.
    - notes: the changes that are not changes of nodes, as texts.
    """

    def __init__(
        self,
        model: "onnx.ModelProto",
        opset: Optional[int],
        source: Mapping[str, int],
        target: Mapping[str, int],
        compose: Optional[Composer],
    ) -> None:
        self.model = model
        self.opset = opset
        self.source = dict(source)
        self.target = dict(target) if opset is None else dict({"": opset}, **target)
        self.compose = compose
        self.notes: List[str] = []
        #: The refused and composed nodes of functions that were brought to the model's versions, to be inlined.
        self._earlier: List[NodeOutcome] = []
        self._inlined = 0
        #: The prefix of the keys of nodes -> (facts, position of the first node with that prefix).
        self._facts: Dict[str, Tuple[ModelFacts, int]] = {}

    def run(self) -> List[NodeOutcome]:
        """Rewrite every graph and function of the model, and set its opsets, in place. Return the nodes' outcomes.

        All nodes are rewritten again after one of these changes, which help to write more nodes:

        - A function with a refused node is inlined: the node may have a form for each single call.
        - An input is fixed to its default, if that may make a value known that a rule needs.
        - The training information is removed, if it has a refused node.
        """
        while True:
            attempt = self._rewrite()
            needed = needed_defaults(self.model, attempt.rewriter.needed)
            if attempt.functions:
                self.inline(attempt.functions)
            elif needed:
                fix_defaults(self.model, needed)
                self.notes.append("no inputs any more, but fixed to their defaults: %s" % ", ".join(needed))
            elif attempt.training_refusal is not None:
                self._drop_training(attempt.training_refusal)
            else:
                break
            self._facts = {}
        if self._inlined:
            self.notes.insert(0, "%d functions are inlined" % self._inlined)
        self._apply(attempt)
        return self._earlier + attempt.rewriter.outcomes

    def expand_sequence_maps(self) -> None:
        """Replace the SequenceMap nodes of the model by Loops, in place, if the target has no SequenceMap. Add notes."""
        if self.source.get("", 0) >= sequence_maps.BEGIN > self.target.get("", 0):
            self.notes += sequence_maps.expand_sequence_maps(self.model, Names(names_used(self.model)))

    def inline(self, keys: Set[FunctionKey]) -> None:
        """Inline the functions with the keys `keys`, in place. Do nothing if `keys` is empty.

        First, their bodies are brought to the opsets of the model, because the copies of their nodes will have these.
        """
        if not keys:
            return
        model, names = self.model, Names(names_used(self.model))
        lost = describe_lost_parts(model, keys)
        rewriter = Rewriter(map(function_key, model.functions), self._facts_of, names, self.compose)
        omitted = omitted_inputs(model)
        imported = versions_of(model.opset_import) if model.opset_import else {}
        for number, function in enumerate(model.functions):
            key = function_key(function)
            if key not in keys:
                continue
            versions = self._versions_in(function)
            target = {domain: self.source[domain] for domain in versions}
            group = NodeGroup(function.node, versions, dict(self.source, **target), "f%d_" % number, function.name)
            rewriter.run(group._replace(omitted=omitted[key]))
            for domain in target.keys() - imported.keys():
                imported[domain] = target[domain]
                model.opset_import.add(domain=domain, version=target[domain])
        rewriter.apply()
        self._earlier += [outcome for outcome in rewriter.outcomes if outcome.outcome in (COMPOSED, REFUSED)]
        self.notes += lost + rewriter.notes
        self._inlined += len(keys & called_functions(model))
        inline_functions(model, keys, names)
        self.expand_sequence_maps()  # the types of arguments are declared for the calls, not in the bodies
        self._facts = {}
        _drop_unused_domains(model)

    def _rewrite(self) -> _Attempt:
        """Compute the new nodes of all graphs and functions. Return them as an attempt. The model stays as it was."""
        model, names = self.model, Names(names_used(self.model))
        rewriter = Rewriter(map(function_key, model.functions), self._facts_of, names, self.compose)
        versions = versions_of(model.opset_import)
        target = self._target_of(versions)
        composed = rewriter.run(NodeGroup(model.graph.node, versions, target, "n", is_main=True))
        edits: List[Tuple[OpsetImports, Mapping[str, int], Mapping[str, int]]] = []
        refused: Set[FunctionKey] = set()
        omitted = omitted_inputs(model)
        for number, function in enumerate(model.functions):
            key, begin = function_key(function), len(rewriter.outcomes)
            group = self._group_of(function, "f%d_" % number, omitted[key])
            edits.append((function.opset_import, group.target, rewriter.run(group)))
            if any(outcome.outcome == REFUSED for outcome in rewriter.outcomes[begin:]):
                refused.add(key)
        begin = len(rewriter.outcomes)
        for number, graph in enumerate(all_graphs(model)[1:]):
            composed.update(rewriter.run(NodeGroup(graph.node, versions, target, "t%d_" % number)))
        lost = next((outcome for outcome in rewriter.outcomes[begin:] if outcome.outcome == REFUSED), None)
        edits.append((model.opset_import, target, composed))
        return _Attempt(rewriter, refused, lost, edits)

    def _apply(self, attempt: _Attempt) -> None:
        """Write the new nodes, initializers and opsets of an attempt into the model, and prune unread values."""
        rewriter = attempt.rewriter
        rewriter.apply()
        self.model.graph.initializer.extend(rewriter.initializers)
        if prune(self.model, rewriter.unread, replaceable_inputs(self.model)):
            nodes = [node for graph in all_graphs(self.model) for node in walk(graph.node)]
            rewriter.mark_left_out({name for node in nodes for name in node.output})
        for imports, target, composed in attempt.versions:
            _set_versions(imports, target, composed)
        self.notes += rewriter.notes

    def _drop_training(self, refusal: NodeOutcome) -> None:
        """Remove the training information, and add a note that names the refused node."""
        del self.model.training_info[:]
        text = "the training information is left out: its node '%s' (%s) cannot be written: %s"
        self.notes.append(text % (refusal.node, refusal.operator, refusal.reason))

    def _versions_in(self, function: "onnx.FunctionProto") -> Dict[str, int]:
        """Return domain -> version of a function's nodes. A domain that it does not import has the model's version."""
        own = {normalise(entry.domain): entry.version for entry in function.opset_import}
        return dict(versions_of(self.model.opset_import), **own)

    def _target_of(self, versions: Mapping[str, int]) -> Dict[str, int]:
        """Return domain -> target version, for nodes that have the source versions `versions`."""
        return dict(self.target, **target_opsets(versions, self.opset))

    def _group_of(self, function: "onnx.FunctionProto", prefix: str, omitted: FrozenSet[str]) -> NodeGroup:
        """Return the nodes of a function as a group. `prefix`, `omitted`: the fields of `NodeGroup`."""
        versions = self._versions_in(function)
        return NodeGroup(function.node, versions, self._target_of(versions), prefix, function.name, False, omitted)

    def _facts_of(self, key: str) -> NodeFacts:
        """Return the facts of the node with a key. They are inferred at the first call, and for each training graph.

        The keys are those of `nodes_of`. A node of a training graph has the key "t<number of the graph>_<position>".
        """
        prefix, _, position = key.rpartition("_") if key.startswith("t") else ("", "", key)
        if prefix not in self._facts:
            self._facts[prefix] = self._infer_training(int(prefix[1:])) if prefix else (self._infer(), 0)
        facts, begin = self._facts[prefix]
        return facts.of("n%d" % (begin + int(position)) if prefix else key)

    def _infer(self) -> ModelFacts:
        return infer_facts(self.model, replaceable_inputs(self.model))

    def _infer_training(self, number: int) -> Tuple[ModelFacts, int]:
        """Return (facts for a training graph, position of its first node in these facts). See `model_of_training`."""
        model, begin = model_of_training(self.model, number)
        return infer_facts(model, replaceable_inputs(model), is_checked=False), begin


def _set_versions(imports: OpsetImports, target: Mapping[str, int], composed: Mapping[str, int]) -> None:
    """Set the version of each domain in `imports`, and add the domains of composed nodes, in place.

    `target`, `composed`: domain -> version. A domain whose target version is 0 is removed: no node has it any more. A
    domain that `target` does not list keeps its version.
    """
    for domain in composed.keys() - {normalise(entry.domain) for entry in imports}:
        imports.add(domain=domain, version=composed[domain])
    for position in reversed(range(len(imports))):
        version = target.get(normalise(imports[position].domain), imports[position].version)
        if version:
            imports[position].version = version
        else:
            del imports[position]
