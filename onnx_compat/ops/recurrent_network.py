"""The layers of RNN, GRU and LSTM: check their inputs, and run a cell along the sequence in each direction by scan."""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import int32
from onnx_compat.ops.arguments import take_slice
from onnx_compat.primitives.ranges import check_indices
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["Activation", "Cell", "Network", "Product", "run_cell", "transposed_product"]

Activation = Callable[[Any], Tensor]
#: A cell: (parts of the product of input and gates in this step, *states) -> next states; the first is the output.
Cell = Callable[..., List[Tensor]]
#: (values, weights, bias, number of the direction) -> values times the transposed weights, plus the bias.
Product = Callable[[Any, Any, Any, int], Tensor]


def transposed_product(x: Tensor, weights: Tensor, bias: Tensor, k: int) -> Tensor:
    """Return x @ weights^T + bias. The number of the direction, `k`, has no effect."""
    return p.matmul(x, weights, bias, transpose_y=True)


class Network(NamedTuple):
    """A node of RNN, GRU or LSTM: the inputs and attributes that the three operators share.

    - initial: the initial states; None: zeros.
    - activations: the activation functions of the first direction, then those of the second direction.
    - product: a function (x, weights, bias, number of the direction) that multiplies the input X by the weights W.
    """

    X: Any
    W: Any
    R: Any
    B: Any
    sequence_lens: Any
    initial: Sequence[Any]
    activations: List[Activation]
    direction: str
    layout: int
    product: Product = transposed_product

    @property
    def directions(self) -> Sequence[bool]:
        """A bool for each direction: whether it runs backwards. Raises InvalidModelError for an unknown direction.

        The specification of GRU-1 misspells "forward" as "foward".
        """
        directions_by_name = {
            "forward": (False,),
            "foward": (False,),
            "reverse": (True,),
            "bidirectional": (False, True),
        }
        if self.direction not in directions_by_name:
            raise InvalidModelError("the direction %r is none of forward, reverse, bidirectional" % self.direction)
        return directions_by_name[self.direction]

    def check(self, gates: int, hidden_size: Optional[int], peepholes: Optional[Tensor] = None) -> None:
        """Raise InvalidModelError if an input or attribute does not fit the others. Otherwise do nothing.

        - X must have rank 3, `layout` must be 0 or 1, and `direction` must be known.
        - W, R, B, peepholes, sequence_lens and the initial states need the rank and the static sizes that follow from
          X, hidden_size, `gates` and `direction`. hidden_size None: the last axis of R.
        - A known entry of sequence_lens must be from 0 to the static number of steps.

        An absent input fits.
        """
        if self.layout not in (0, 1) or self.X.rank != 3:
            raise InvalidModelError(
                "the input has the shape %s in layout %r; it must have rank 3, and the layout must be 0 or 1"
                % (list(self.X.shape), self.layout)
            )
        hidden = self.R.shape[-1] if hidden_size is None else hidden_size
        directions, rows = len(self.directions), hidden * gates
        steps, batch = self.X.shape[:2][:: -1 if self.layout else 1]
        states = (batch, directions, hidden) if self.layout else (directions, batch, hidden)
        _check_shape("W", self.W, (directions, rows, self.X.shape[2]))
        _check_shape("R", self.R, (directions, rows, hidden))
        _check_shape("B", self.B, (directions, rows * 2))
        _check_shape("P", peepholes, (directions, hidden * 3))
        _check_shape("sequence_lens", self.sequence_lens, (batch,))
        for initial in self.initial:
            _check_shape("an initial state", initial, states)
        if self.sequence_lens is not None and is_static(steps):
            check_indices(lift(self.sequence_lens), steps + 1)  # a length may equal the number of steps


def _check_shape(name: str, value: Any, expected: Sequence[Extent]) -> None:
    """Raise InvalidModelError if an input (None fits) has another rank than `expected`, or another static size."""
    if value is None:
        return
    tensor = lift(value)
    pairs = list(zip(tensor.shape, expected))
    if tensor.rank != len(expected) or any(is_static(a) and is_static(b) and a != b for a, b in pairs):
        raise InvalidModelError(
            "%s has the shape %s, where hidden_size, direction and the other inputs need %s"
            % (name, list(tensor.shape), list(expected)),
            hint="correct the attributes, or the weights: [directions, gates * hidden_size, ...]",
        )


def run_cell(
    setting: Network, make_cell: Callable[..., Cell], bias: Callable[[Any, Any], Any], parts: Sequence[int] = ()
) -> List[Tensor]:
    """Run a cell in each direction. Return [Y [steps, directions, batch, hidden], *states [directions, batch, hidden]].

    In layout 1: Y [batch, steps, directions, hidden] and states [batch, directions, hidden].

    - setting: the node.
    - make_cell: a function (R, bias, activations, hidden, number of the direction) -> cell. A cell is a function
      (*products, *states) -> new states.
    - bias: a function (B, hidden) -> (bias of the product of X and W, bias for `make_cell`).
    - parts: the number of gates in each of these products; empty: a single product with all gates.

    The product of X and W, with all gates and steps, is computed before the loop.
    """
    X = p.transpose(setting.X, (1, 0, 2)) if setting.layout else setting.X
    hidden = setting.R.shape[-1]
    per_direction = len(setting.activations) // len(setting.directions)
    results: List[List[Tensor]] = []
    for k, backwards in enumerate(setting.directions):
        W, R = (take_slice(weights, k) for weights in (setting.W, setting.R))
        B = None if setting.B is None else take_slice(setting.B, k)
        gates, inner = bias(B, hidden)
        share = setting.product(X, W, gates, k)
        shares = p.split(share, 2, [hidden * gate for gate in parts]) if parts else [share]
        functions = setting.activations[k * per_direction : (k + 1) * per_direction]
        states = [_initial_state(initial, k, X, hidden, setting.layout) for initial in setting.initial]
        cell = make_cell(R, inner, functions, hidden, k)
        results.append(_scan_steps(cell, states, shares, setting.sequence_lens, backwards))
    *finals, Y = [p.stack(list(parts), 1 if n == len(results[0]) - 1 else 0) for n, parts in enumerate(zip(*results))]
    if setting.layout:
        Y, finals = p.transpose(Y, (2, 0, 1, 3)), [p.transpose(state, (1, 0, 2)) for state in finals]
    return [Y, *finals]


def _initial_state(initial: Optional[Tensor], k: int, X: Tensor, hidden: Extent, layout: int) -> Tensor:
    """Return the initial state of direction `k`, [batch, hidden]; zeros if `initial` is absent."""
    if initial is None:
        return p.full((X.shape[1], hidden), 0, X.dtype)
    return take_slice(p.transpose(initial, (1, 0, 2)) if layout else initial, k)


def _scan_steps(
    cell: Cell, states: List[Tensor], shares: List[Tensor], lengths: Optional[Tensor], backwards: bool
) -> List[Tensor]:
    """Run a cell along the sequence by a scan. Return [*last states, outputs of all steps [steps, batch, hidden]].

    - shares: tensors [steps, batch, ...], the arguments of the cell before the states.
    - lengths: the number of valid steps of each batch entry. In any other step, the states of the entry do not change,
      and its output is 0. None: all steps are valid.
    - backwards: whether the last step runs first. The outputs have the order of the input in any case.
    """
    steps, is_valid = shares[0].shape[0], None
    if lengths is not None:
        positions = p.unsqueeze(p.iota(steps, int32), [1])
        is_valid = p.unsqueeze(p.less(positions, p.cast(lengths, int32)), [2])

    def body(*values: Any) -> List[Tensor]:
        before, inputs = values[: len(states)], values[len(states) :]
        after = cell(*inputs[: len(shares)], *before)
        if is_valid is not None:
            after = [p.where(inputs[-1], new, old) for new, old in zip(after, before)]
        return [*after, after[0]]

    *finals, Y = p.scan(body, states, shares if is_valid is None else [*shares, is_valid], steps, backwards)
    return [*finals, Y if is_valid is None else p.where(is_valid, Y, 0)]
