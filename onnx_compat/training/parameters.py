"""Choose the parameters of a training among the initializers of a model."""

import difflib
import fnmatch
from typing import List, Sequence, Set, Union

from onnx_compat.errors import InputError
from onnx_compat.model import Graph

__all__ = ["Patterns", "choose_parameters", "no_parameter_error"]

#: Names of initializers, with the wildcards of `fnmatch`; None: the default choice.
Patterns = Union[None, str, Sequence[str]]

#: (domain, operator) -> the inputs that hold statistics or settings of the operator: no gradient improves them.
_SETTINGS = {
    ("", "BatchNormalization"): (3, 4),
    ("", "Clip"): (1, 2),
    ("", "DequantizeLinear"): (1, 2),
    ("", "Dropout"): (1, 2),
    ("", "NonMaxSuppression"): (3, 4),
    ("", "OneHot"): (1, 2),
    ("", "Pad"): (2,),
    ("", "Pow"): (1,),
    ("", "QLinearConv"): (1, 4, 6),
    ("", "QLinearMatMul"): (1, 4, 6),
    ("", "QuantizeLinear"): (1, 2),
    ("", "Range"): (0, 1, 2),
    ("", "Resize"): (1, 2),
    ("", "Upsample"): (1,),
}


def choose_parameters(graph: Graph, trainable: Patterns) -> List[str]:
    """Return the names of the initializers that may be parameters, in the order of the graph.

    Parameters are float initializers of the main graph that no node reads as a statistic or setting. By default, they
    have an axis: a number without axes is a constant of the code. With `trainable`, they match a pattern. A tensor that
    several nodes read is one parameter.

    Raises InputError for a pattern that no such initializer matches.
    """
    settings = _settings(graph)
    eligible = [
        name
        for name, initializer in graph.initializers.items()
        if initializer.dtype.kind == "f" and initializer.dtype.bits >= 16 and name not in settings
    ]
    if trainable is None:
        return [name for name in eligible if graph.initializers[name].shape and 0 not in graph.initializers[name].shape]
    patterns = [trainable] if isinstance(trainable, str) else list(trainable)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in eligible):
            raise _pattern_error(pattern, graph, eligible)
    return [name for name in eligible if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def _pattern_error(pattern: str, graph: Graph, eligible: Sequence[str]) -> InputError:
    matched = [name for name in graph.initializers if fnmatch.fnmatchcase(name, pattern)]
    if matched:
        initializer = graph.initializers[matched[0]]
        kind = "a statistic or a setting" if initializer.dtype.kind == "f" else str(initializer.type)
        return InputError(
            "the pattern '%s' of trainable names '%s', which is %s" % (pattern, matched[0], kind),
            hint="parameters are float initializers that a gradient can improve",
        )
    close = difflib.get_close_matches(pattern, eligible, 1)
    hint = "did you mean '%s'?" % close[0] if close else "the model has: %s" % _listing(eligible)
    return InputError("the pattern '%s' of trainable matches no initializer" % pattern, hint=hint)


def no_parameter_error(candidates: Sequence[str]) -> InputError:
    """Return the error for a loss that no parameter reaches. `candidates`: the initializers that were considered."""
    if not candidates:
        return InputError(
            "the model has no float initializers to train",
            hint="weights in Constant nodes are constants: export the model with its weights as initializers",
        )
    return InputError(
        "the loss depends on no trainable parameter; considered were %s" % _listing(candidates),
        hint="choose another output for the loss, or other names for trainable",
    )


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join("'%s'" % name for name in names[:8])
    return shown + (" …" if len(names) > 8 else "") if names else "no float initializers"


def _settings(graph: Graph) -> Set[str]:
    """Return the names of the values that a node of the graph or of a subgraph reads as a statistic or setting."""
    return {
        name
        for node in graph.walk()
        for position, name in enumerate(node.inputs)
        if position in _SETTINGS.get((node.domain, node.operator), ())
    }
