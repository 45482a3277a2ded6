"""The backward pass: apply the derivative rules from the results of recorded nodes to the tensors they depend on."""

from typing import Any, Dict, Iterable, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.autodiff.reasons import REASONS
from onnx_compat.autodiff.rules import RULES, RecordedNode, apply_pending_order, captures_of, derivative_dtype
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Extents, Node, Ref
from onnx_compat.primitives.base import apply
from onnx_compat.primitives.derivative import HINT
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor

__all__ = ["gradients", "pull_back", "variable"]


def variable(x: Tensor) -> Tensor:
    """Return a run-time copy of x, so that computations on the result are recorded and never folded.

    The copy is recorded as a reshape to the same shape. A pending order of x is recorded as a transpose.
    """
    arg = current_trace().argument(x)
    return apply("reshape", [arg, Extents(x.shape)], {}, [x.spec])[0]


def gradients(y: Tensor, xs: Sequence[Tensor]) -> List[Tensor]:
    """Return a list of the derivatives of the sum of y's elements with respect to each tensor in `xs`, in this order.

    Each tensor in `xs` is a run-time value, such as a result of `variable`. The tensors in `xs` count as independent of
    each other. A derivative has the shape and the dtype of its tensor. The derivative is zero if y does not depend on
    the tensor, or only through piecewise constant primitives.

    Raises UnsupportedError if a primitive between `xs` and y has no derivative rule, or none for its parameters.
    """
    derivatives: Dict[Ref, Tensor] = {}
    if y.ref is not None:
        derivatives[y.ref] = p.full(y.ref.spec.shape, 1, derivative_dtype(y.dtype))
        _propagate(derivatives, xs)
    path_derivatives = [None if x.ref is None or x.dtype.kind not in "fc" else derivatives.get(x.ref) for x in xs]
    return [p.full(x.shape, 0, x.dtype) if g is None else p.cast(g, x.dtype) for x, g in zip(xs, path_derivatives)]


def pull_back(ys: Sequence[Tensor], seeds: Sequence[Optional[Tensor]], xs: Sequence[Tensor]) -> List[Optional[Tensor]]:
    """Return a list with a derivative for each tensor in `xs`: of the sum of all elements of `seed * y`.

    - ys, seeds: results, and the derivative by each. A seed of None counts as zero.
    - xs: run-time values without a pending order, which count as independent of each other.

    A derivative has the shape of its tensor. It is None if no result depends on the tensor, except through piecewise
    constant primitives. Raises UnsupportedError as `gradients` does.
    """
    derivatives: Dict[Ref, Tensor] = {}
    for y, seed in zip(ys, seeds):
        ref = current_trace().argument(y)
        if seed is not None and isinstance(ref, Ref):
            _add(derivatives, ref, apply_pending_order(seed))
    _propagate(derivatives, xs)
    path_derivatives = [None if x.ref is None else derivatives.get(x.ref) for x in xs]
    return [None if g is None else p.reshape(g, x.shape) for x, g in zip(xs, path_derivatives)]


def _propagate(derivatives: Dict[Ref, Tensor], xs: Sequence[Tensor]) -> None:
    """Add the derivatives of the `xs`, and of all tensors on the paths to them, to `derivatives`, in place.

    `derivatives` maps each result to its derivative.
    """
    for node in reversed(_path_nodes(list(derivatives), {x.ref for x in xs if x.ref is not None})):
        _backpropagate(node, derivatives)


def _path_nodes(ys: Sequence[Ref], xs: Iterable[Ref]) -> List[Node]:
    """Return the nodes on the paths from the `xs` to the `ys`, in topological order: each node after those it uses.

    The list is empty if no result depends on any of `xs`, or each is one of them.
    """
    ordered: List[Node] = []
    depends: Dict[Ref, bool] = dict.fromkeys(xs, True)
    stack = [(y, False) for y in ys]
    while stack:
        ref, are_sources_ordered = stack.pop()
        if ref in depends or ref.node is None:
            depends.setdefault(ref, False)
            continue
        sources = list(ref.node.uses())
        if not are_sources_ordered:
            stack.append((ref, True))
            stack.extend((source, False) for source in sources if source not in depends)
            continue
        depends_on_xs = any(depends[source] for source in sources)
        depends.update(dict.fromkeys(ref.node.outputs, depends_on_xs))
        if depends_on_xs:
            ordered.append(ref.node)
    return ordered


def _backpropagate(node: Node, derivatives: Dict[Ref, Tensor]) -> None:
    """Add the derivatives of a node's arguments and captures to `derivatives`, by the rule of the node's primitive.

    `derivatives` maps a tensor to its derivative and is changed in place. A derivative is added to the entry that the
    argument already has. Constants, and arguments for which the rule returns None, get no entry.

    If `derivatives` has an entry for none of the node's outputs, do nothing. Otherwise, raises UnsupportedError if the
    primitive has no rule, or the rule has none for the node's parameters. The error names the ONNX node.
    """
    output_derivatives = [derivatives.get(output) for output in node.outputs]
    if all(g is None for g in output_derivatives):
        return
    try:
        if node.primitive not in RULES:
            reason = REASONS.get(node.primitive, "no rule is declared for it")
            raise UnsupportedError("the primitive '%s' has no derivative: %s" % (node.primitive, reason))
        results = RULES[node.primitive](RecordedNode(node), *output_derivatives)
    except UnsupportedError as error:
        error.hint = error.hint or HINT
        if node.origin is not None:
            error.at(node=node.origin.node, operator=node.origin.operator, opset=node.origin.opset)
        raise
    for arg, derivative in zip([*_leaves(node.args), *captures_of(node)], _leaves(results)):
        if isinstance(arg, Ref) and derivative is not None:
            _add(derivatives, arg, derivative)


def _add(derivatives: Dict[Ref, Tensor], ref: Ref, derivative: Tensor) -> None:
    """Add a derivative to the entry of `ref` in `derivatives`, in place. Without an entry, it becomes the entry."""
    earlier = derivatives.get(ref)
    derivatives[ref] = derivative if earlier is None else p.add(earlier, p.cast(derivative, earlier.dtype))


def _leaves(args: Sequence[Any]) -> List[Optional[Any]]:
    """Return the arguments as a new list. A list or tuple of arguments is replaced by its items, one level deep."""
    flat: List[Any] = []
    for arg in args:
        flat.extend(arg if isinstance(arg, (tuple, list)) else [arg])
    return flat
