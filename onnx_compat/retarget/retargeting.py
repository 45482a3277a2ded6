"""Bring an onnx.ModelProto to another opset and IR version, node by node, in place."""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Set

from onnx_compat.errors import UnsupportedError
from onnx_compat.model.names import Names
from onnx_compat.model.versions import NEWEST, normalise
from onnx_compat.retarget import formats
from onnx_compat.retarget.inlining import FunctionKey, function_key, inline_functions
from onnx_compat.retarget.knowledge import ModelFacts, NodeFacts, learn
from onnx_compat.retarget.outcomes import REFUSED, RESPELLED, NodeOutcome, RetargetPlan
from onnx_compat.retarget.protos import all_graphs, names_used, walk
from onnx_compat.retarget.pruning import prune
from onnx_compat.retarget.rewriting import Composer, Rewriter
from onnx_compat.retarget.targets import check_ir_version, target_opsets

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
    """Bring the model to an opset and an IR version, and return what was done. The model must be one that `load` accepts.

    - opset: the version of ai.onnx; None: every opset stays.
    - ir_version: None: it follows from the opsets and the element types; without `opset` that of the source stays.
    - inline: whether all functions are inlined. Otherwise they stay where the target can hold them.
    - compose: composes a node that no form of its operator expresses. None: such a node is refused.

    A refused node stays as it was, and is in the plan. Raises ConversionError for an opset or IR version that cannot be
    written. Raises UnsupportedError for an element type that the target does not have.
    """
    source = versions_of(model.opset_import)
    target = target_opsets(source, opset)
    types = formats.element_types(model)
    wanted = None if ir_version is None else check_ir_version(ir_version)
    ir = formats.ir_version_for(target, types, model.ir_version, opset is None) if wanted is None else wanted
    formats.check_types(types, ir)
    source_ir = model.ir_version
    keys = [function_key(function) for function in model.functions]
    inlined: Set[FunctionKey] = {
        key for key in keys if inline or ir < formats.FUNCTIONS or (ir < formats.OVERLOADS and key[2])
    }
    names = Names(names_used(model))
    refused: List[NodeOutcome] = []
    if inlined:
        refused = _inline(model, source, inlined, names)
    ports = [port.name for port in model.graph.input]
    outcomes = _Retargeting(model, source, target, opset, names, compose).run()
    notes = ["%d functions are inlined" % len(inlined)] if inlined else []
    fixed = [name for name in ports if name not in {port.name for port in model.graph.input}]
    if fixed and source_ir >= 4:  # before, an initializer has to be an input
        notes.append("no inputs any more, but fixed to their defaults: %s" % ", ".join(fixed))
    caveats = [entry for entry in outcomes if entry.outcome == RESPELLED and entry.reason]
    notes += ["'%s' (%s): %s" % (entry.node, entry.operator, entry.reason) for entry in caveats]
    notes += formats.adapt_to_ir(model, ir)
    if opset is not None:
        notes += formats.declare_outputs(model)
    notes += formats.ignored_parts(model, ir)
    domains = sorted(domain for domain in source if domain in NEWEST)
    return RetargetPlan(
        {domain: (source[domain], target[domain]) for domain in domains}, (source_ir, ir), refused + outcomes, notes
    )


def versions_of(imports: OpsetImports) -> Dict[str, int]:
    """Return domain -> version. Before IR version 3, a model without imports has version 1 of ai.onnx."""
    return {normalise(entry.domain): entry.version for entry in imports} or {"": 1}


def refusal_error(plan: RetargetPlan) -> UnsupportedError:
    """Return the error for the refused nodes of a plan: it names the first, and lists the others."""
    refused = [node for node in plan.nodes if node.outcome == REFUSED]
    first = refused[0]
    reason = "it cannot be written for %s: %s" % (_describe_target(plan), first.reason)
    if len(refused) > 1:
        lines = ["\n  '%s' (%s): %s" % (node.node, node.operator, node.reason) for node in refused[1:]]
        reason += "\nnor can %d other nodes:" % len(lines) + "".join(lines)
    hint = "choose a newer opset; a dry run (--dry-run) lists every node"
    return UnsupportedError(reason, hint=hint, node=first.node, operator=first.operator)


def _describe_target(plan: RetargetPlan) -> str:
    return ", ".join(
        "%s %d" % (domain or "opset", pair[1]) for domain, pair in plan.opsets.items() if pair[0] != pair[1]
    )


def _inline(
    model: "onnx.ModelProto", source: Mapping[str, int], keys: Set[FunctionKey], names: Names
) -> List[NodeOutcome]:
    """Inline functions, after their bodies are brought to the opsets of the model. Return the nodes that are refused."""
    functions = [function_key(function) for function in model.functions]
    rewriter = Rewriter(source, functions, lambda key: NodeFacts(), names, None)
    for function in model.functions:
        if function_key(function) in keys:
            rewriter.run(function.node, versions_of(function.opset_import), "", function.name)
            for entry in function.opset_import:
                if normalise(entry.domain) not in source:
                    model.opset_import.add(domain=entry.domain, version=entry.version)
    refused = [outcome for outcome in rewriter.outcomes if outcome.outcome == REFUSED]
    rewriter.apply()
    inline_functions(model, keys, names)
    _drop_unused_domains(model)
    return refused


def _drop_unused_domains(model: "onnx.ModelProto") -> None:
    """Remove from `model` the imports of domains that no node calls any more, except those of the standard."""
    sources = [graph.node for graph in all_graphs(model)] + [function.node for function in model.functions]
    used = {normalise(node.domain) for nodes in sources for node in walk(nodes)}
    for position in reversed(range(len(model.opset_import))):
        domain = normalise(model.opset_import[position].domain)
        if domain not in used and domain not in NEWEST:
            del model.opset_import[position]


class _Retargeting:
    """A pass over all nodes of a model. The knowledge of a trace is learned when a rule first asks for it."""

    def __init__(
        self,
        model: "onnx.ModelProto",
        source: Mapping[str, int],
        target: Mapping[str, int],
        opset: Optional[int],
        names: Names,
        compose: Optional[Composer],
    ) -> None:
        self.model = model
        self.source = source
        self.target = dict(target)
        self.opset = opset
        for function in model.functions:  # a function may import a domain that the model does not
            self.target = dict(target_opsets(versions_of(function.opset_import), opset), **self.target)
        functions = [function_key(function) for function in model.functions]
        self.rewriter = Rewriter(self.target, functions, self.facts_of, names, compose)
        self._knowledge: Optional[ModelFacts] = None

    def facts_of(self, key: str) -> NodeFacts:
        if key.startswith("t"):  # the trace does not reach training graphs
            return NodeFacts()
        if self._knowledge is None:
            self._knowledge = learn(self.model)
        return self._knowledge.of(key)

    def run(self) -> List[NodeOutcome]:
        """Rewrite every graph and function, and set the opsets. Return the outcomes of the nodes."""
        model, rewriter = self.model, self.rewriter
        rewriter.run(model.graph.node, self.source, "n")
        for number, function in enumerate(model.functions):
            rewriter.run(function.node, versions_of(function.opset_import), "f%d_" % number, function.name)
        composer, rewriter.compose = rewriter.compose, None
        for graph in all_graphs(model)[1:]:
            rewriter.run(graph.node, self.source, "t")
        rewriter.compose = composer
        rewriter.apply()
        model.graph.initializer.extend(rewriter.initializers)
        prune(model, rewriter.unread)
        for holder in (model, *model.functions):
            _set_versions(holder.opset_import, self.target, rewriter.opsets)
        return rewriter.outcomes


def _set_versions(imports: OpsetImports, target: Mapping[str, int], composed: Mapping[str, int]) -> None:
    """Set the version of each domain in `imports`, and add the domains of composed nodes.

    A domain that the target lacks is removed: no node has it any more.
    """
    for domain in composed.keys() - {normalise(entry.domain) for entry in imports}:
        imports.add(domain=domain, version=composed[domain])
    for position in reversed(range(len(imports))):
        version = target.get(normalise(imports[position].domain), imports[position].version)
        if version:
            imports[position].version = version
        else:
            del imports[position]
