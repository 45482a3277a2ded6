"""If: a known condition selects a branch while tracing. Otherwise both branches become regions of the program.

Sequences and optionals may pass through branches if both branches agree on their structure.
"""

from typing import TYPE_CHECKING, Any, Callable, List

from onnx_compat import primitives as p
from onnx_compat.errors import LimitError, NeedsKnownError, OnnxCompatError
from onnx_compat.model import Graph
from onnx_compat.ops.flatten_values import Form, flatten_values, rebuild_values
from onnx_compat.ops.registry import op
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context


@op("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(ctx: "Context", cond: Tensor, *, then_branch: Graph, else_branch: Graph) -> List[Any]:
    """Return a list of the outputs of the branch that the condition, a single bool, selects.

    If the condition is known, only the selected branch is traced. Otherwise both branches are recorded. Then
    NeedsKnownError names the condition in these cases:

    - The branches return sequences or optionals of different structure, or tensors of different rank.
    - A branch cannot be traced. It must not stop the model unless the condition selects it.

    Recorded branches that return tensors of different dtypes raise InvalidModelError.
    """
    decided = current_trace().peek(cond)
    if decided is not None:
        return list(ctx.body(then_branch if decided.reshape(()) else else_branch)())
    forms: List[Form] = []

    def branch(name: str, graph: Graph) -> Callable[[], List[Tensor]]:
        def run() -> List[Tensor]:
            try:
                tensors, form = flatten_values(ctx.body(graph)())
            except (NeedsKnownError, LimitError):
                raise
            except OnnxCompatError as error:
                raise _branch_error(name, error, cond) from error
            forms.append(form)
            return tensors

        return run

    results = p.cond(p.reshape(cond, ()), branch("then_branch", then_branch), branch("else_branch", else_branch))
    if forms[0] != forms[1]:
        raise NeedsKnownError("the branches of an If return sequences or optionals of different structure", cond)
    return rebuild_values(results, forms[0])


def _branch_error(name: str, error: OnnxCompatError, cond: Tensor) -> NeedsKnownError:
    """Return a NeedsKnownError for a branch of an If that cannot be traced: the condition `cond` must be known.

    The condition may select the other branch at run time. The reason of the new error contains the reason and the node
    of `error`, and `name`, the attribute of the branch. The new hint contains the hint of `error`.
    """
    where = " at the node '%s'" % error.node if error.node else ""
    reason = "the %s of an If cannot be traced%s: %s" % (name, where, error.reason)
    hint = "fix the condition, so that the branch is not needed, or mend the branch%s"
    return NeedsKnownError(reason, cond, hint=hint % (" (%s)" % error.hint if error.hint else ""))
