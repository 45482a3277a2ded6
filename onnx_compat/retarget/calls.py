"""Calls of a model's functions: which inputs they omit, and which functions nothing calls."""

from typing import TYPE_CHECKING, Collection, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from onnx_compat.model.protos import walk
from onnx_compat.retarget.inlining import FunctionKey, call_key, function_key
from onnx_compat.retarget.protos import all_graphs

if TYPE_CHECKING:
    import onnx

__all__ = ["called_functions", "describe_lost_parts", "omitted_inputs"]


def omitted_inputs(model: "onnx.ModelProto") -> Dict[FunctionKey, FrozenSet[str]]:
    """Return function key -> the names of the inputs that at least one call omits. Each function has an entry.

    A call inside a function F also omits an input if it passes on an input of F that a call of F omits.
    """
    inputs = {function_key(function): list(function.input) for function in model.functions}
    omitted: Dict[FunctionKey, Set[str]] = {key: set() for key in inputs}
    calls = [(caller, node) for caller, node in _nodes_of(model) if call_key(node) in inputs]
    is_changed = True
    while is_changed:
        is_changed = False
        for caller, node in calls:
            outer: Collection[str] = () if caller is None else omitted[caller]
            absent = omitted[call_key(node)]
            for position, name in enumerate(inputs[call_key(node)]):
                value = node.input[position] if position < len(node.input) else ""
                if name not in absent and (not value or value in outer):
                    absent.add(name)
                    is_changed = True
    return {key: frozenset(names) for key, names in omitted.items()}


def _nodes_of(model: "onnx.ModelProto") -> "Iterator[Tuple[Optional[FunctionKey], onnx.NodeProto]]":
    """Yield (key of the function whose body has the node, node) for every node of the model, also in subgraphs.

    The key is None for a node of the main graph or of a training graph.
    """
    for graph in all_graphs(model):
        for node in walk(graph.node):
            yield None, node
    for function in model.functions:
        for node in walk(function.node):
            yield function_key(function), node


def called_functions(model: "onnx.ModelProto") -> Set[FunctionKey]:
    """Return the keys of the functions that a node of a graph or of a function body calls."""
    keys = {function_key(function) for function in model.functions}
    return keys & {call_key(node) for _, node in _nodes_of(model)}


def describe_lost_parts(model: "onnx.ModelProto", keys: Collection[FunctionKey]) -> List[str]:
    """Return texts that say what the model loses if the functions in `keys` are inlined; an empty list for no loss.

    - One text lists the functions that nothing calls: they are removed.
    - One text lists the called functions that have a doc string or metadata, which are removed.
    """
    called = called_functions(model)
    functions = [function for function in model.functions if function_key(function) in keys]
    uncalled = [function for function in functions if function_key(function) not in called]
    described = [
        function
        for function in functions
        if function_key(function) in called and (function.doc_string or len(getattr(function, "metadata_props", ())))
    ]
    texts = (
        (uncalled, "functions that nothing calls are left out: %s"),
        (described, "the doc strings and the metadata of inlined functions are left out: %s"),
    )
    return [
        text % ", ".join("%s::%s" % (function.domain, function.name) for function in names)
        for names, text in texts
        if names
    ]
