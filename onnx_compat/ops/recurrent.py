"""RNN, GRU and LSTM: a cell for each operator, and a scan that runs a cell along the sequence in either direction."""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import int32
from onnx_compat.ops.activation import elu, hard_sigmoid, leaky_relu, softplus, softsign, thresholded_relu
from onnx_compat.ops.arguments import take_slice
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.primitives.ranges import check_indices
from onnx_compat.tracing.values import Tensor, lift

Ints = Optional[Sequence[int]]
Floats = Sequence[float]
Activation = Callable[[Any], Tensor]
#: A cell: (parts of the product of input and gates in this step, *states) -> next states; the first is the output.
Cell = Callable[..., List[Tensor]]
#: (values, weights, bias, number of the direction) -> values times the transposed weights, plus the bias.
Product = Callable[[Any, Any, Any, int], Tensor]

#: Name -> (function, default alpha, default beta); None where the function has no such parameter.
_ACTIVATIONS = {
    "relu": (lambda x, a, b: p.relu(x), None, None),
    "tanh": (lambda x, a, b: p.tanh(x), None, None),
    "sigmoid": (lambda x, a, b: p.sigmoid(x), None, None),
    "softsign": (lambda x, a, b: softsign(x), None, None),
    "softplus": (lambda x, a, b: softplus(x), None, None),
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: leaky_relu(x, alpha=a), 0.01, None),
    "thresholdedrelu": (lambda x, a, b: thresholded_relu(x, alpha=a), 1.0, None),
    "scaledtanh": (lambda x, a, b: p.tanh(x * b) * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: hard_sigmoid(x, alpha=a, beta=b), 0.2, 0.5),
    "elu": (lambda x, a, b: elu(x, alpha=a), 1.0, None),
}  # type: Any


def _resolve_activations(
    names: Sequence[str], alphas: Floats, betas: Floats, clips: Sequence[Optional[float]]
) -> List[Activation]:
    """Return a list with the function of each activation name. A name may be in upper or lower case.

    - names: the names of the first direction, then the names of the second direction.
    - alphas, betas: the parameters of the functions, in the order of the names. A name whose function has no such
      parameter takes no entry. Where the entries end, the default of the function holds.
    - clips: a bound for each function of ONE direction; the second direction has the same bounds. The argument of the
      function is clipped to [-bound, bound]; None is no bound. An LSTM has the functions f, g, h and [clip, clip,
      None].

    Raises InvalidModelError for an unknown name.
    """
    alpha, beta = iter(alphas), iter(betas)
    functions: List[Activation] = []
    for k, name in enumerate(names):
        if name.lower() not in _ACTIVATIONS:
            raise InvalidModelError("there is no activation '%s' for recurrent networks" % name)
        function, a, b = _ACTIVATIONS[name.lower()]
        a = a if a is None else next(alpha, a)
        b = b if b is None else next(beta, b)
        functions.append(_bind_activation(function, a, b, clips[k % len(clips)]))
    return functions


def _bind_activation(
    function: Callable[..., Tensor], a: Optional[float], b: Optional[float], clip: Optional[float]
) -> Activation:
    """Return x -> function(x, a, b). Clip x to [-clip, clip] first, unless `clip` is None."""
    if clip is None:
        return lambda x: function(x, a, b)
    return lambda x: function(p.clip(x, -clip, clip), a, b)


def transposed_product(x: Tensor, weights: Tensor, bias: Tensor, k: int) -> Tensor:
    """Return x @ weights^T + bias. The number of the direction, `k`, has no effect."""
    return p.matmul(x, weights, bias, transpose_y=True)


class _Network(NamedTuple):
    """The common inputs and attributes of RNN, GRU and LSTM; `initial` has the initial states (None: zeros)."""

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
        """Return for each direction whether it runs backwards ("foward": GRU-1). An unknown one: InvalidModelError."""
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


def _run(
    setting: _Network, make_cell: Callable[..., Cell], bias: Callable[[Any, Any], Any], parts: Sequence[int] = ()
) -> List[Tensor]:
    """Run a cell in each direction. Return [Y [steps, directions, batch, hidden], *states [directions, batch, hidden]].

    In layout 1: Y [batch, steps, directions, hidden] and states [batch, directions, hidden].

    - make_cell: a function (R, bias, activations, hidden, number of the direction) -> cell.
    - bias: a function (B, hidden) -> (bias of the product of X and W, bias for `make_cell`).
    - parts: the number of gates in each argument of the cell; empty: a single argument with all gates.

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


def _sum_biases(B: Optional[Tensor], hidden: Extent) -> Tuple[Any, Any]:
    """Return (input bias + state bias, None) for a cell whose gates add both biases; (None, None) without B."""
    if B is None:
        return None, None
    half = p.split(B, 0, [B.shape[0] // 2] * 2)
    return p.add(*half), None


def _add_recurrent(step: Tensor, state: Tensor, R: Tensor, bias: Optional[Tensor] = None) -> Any:
    return p.add(step, p.matmul(state, R, bias, transpose_y=True))


# -- RNN ---------------------------------------------------------------------------------------------------------------
def _rnn_cell(R: Tensor, inner: Tensor, functions: List[Activation], hidden: Extent, k: int) -> Cell:
    (f,) = functions
    return lambda step, h: [f(_add_recurrent(step, h, R))]


@op("RNN", since=(14, 22))
def rnn(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Optional[Tensor] = None,
    sequence_lens: Optional[Tensor] = None,
    initial_h: Optional[Tensor] = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: Optional[float] = None,
    direction: str = "forward",
    hidden_size: Optional[int] = None,
    layout: int = 0,
) -> List[Tensor]:
    """Return [outputs, last state] of a simple recurrent network. `layout` gives their shapes:

    - 0: outputs [steps, directions, batch, hidden], last state [directions, batch, hidden]
    - 1: outputs [batch, steps, directions, hidden], last state [batch, directions, hidden]

    Raises InvalidModelError for an unknown activation, and if an input or attribute does not fit the others (see
    `_Network.check`).
    """
    functions = _resolve_activations(
        _activation_names(activations, ["Tanh"], direction), activation_alpha, activation_beta, [clip]
    )
    setting = _Network(X, W, R, B, sequence_lens, [initial_h], functions, direction, layout)
    setting.check(1, hidden_size)
    return _run(setting, _rnn_cell, _sum_biases)


def _activation_names(names: Sequence[str], default: List[str], direction: str) -> Sequence[str]:
    """Return the names of the activations of all directions: `names`, or if it is empty, `default` for each direction.

    Superfluous names are dropped: the default of RNN in ONNX has two entries, also for a single direction.
    """
    count = len(default) * (2 if direction == "bidirectional" else 1)
    return list(names)[:count] if names else (default * 2)[:count]


# -- GRU ---------------------------------------------------------------------------------------------------------------
def _gru_cell(linear_before_reset: int) -> Callable[..., Cell]:
    def make(R: Tensor, inner: Optional[Tensor], functions: List[Activation], hidden: Extent, k: int) -> Cell:
        f, g = functions
        R_zr, R_h = p.split(R, 0, [hidden * 2, hidden])

        def cell(step_zr: Tensor, step_h: Tensor, h: Tensor) -> List[Tensor]:
            z, r = p.split(f(_add_recurrent(step_zr, h, R_zr)), 1, [hidden, hidden])
            if linear_before_reset:
                new = g(p.add(step_h, p.mul(r, p.matmul(h, R_h, inner, transpose_y=True))))
            else:
                new = g(_add_recurrent(step_h, p.mul(r, h), R_h))
            return [p.add(new, p.mul(z, p.sub(h, new)))]

        return cell

    return make


def _gru_bias(linear_before_reset: int) -> Callable[[Any, Any], Any]:
    """Return a function (B, hidden size) -> (bias of the input product, bias of the hidden gate's state product).

    The second bias is None without `linear_before_reset`: the first bias then includes it. Both are None without B.
    """

    def split(B: Optional[Tensor], hidden: Extent) -> Tuple[Any, Any]:
        if B is None or not linear_before_reset:
            return _sum_biases(B, hidden)
        W_zr, W_h, R_zr, R_h = p.split(B, 0, [hidden * 2, hidden, hidden * 2, hidden])
        return p.concat([p.add(W_zr, R_zr), W_h], 0), R_h

    return split


@op("GRU", since=(14, 22))
def gru(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Optional[Tensor] = None,
    sequence_lens: Optional[Tensor] = None,
    initial_h: Optional[Tensor] = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: Optional[float] = None,
    direction: str = "forward",
    hidden_size: Optional[int] = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> List[Tensor]:
    """Return [outputs, last state] of a GRU. `layout` gives their shapes:

    - 0: outputs [steps, directions, batch, hidden], last state [directions, batch, hidden]
    - 1: outputs [batch, steps, directions, hidden], last state [batch, directions, hidden]

    Raises InvalidModelError for an unknown activation, and if an input or attribute does not fit the others (see
    `_Network.check`).
    """
    names = _activation_names(activations, ["Sigmoid", "Tanh"], direction)
    functions = _resolve_activations(names, activation_alpha, activation_beta, [clip, clip])
    setting = _Network(X, W, R, B, sequence_lens, [initial_h], functions, direction, layout)
    setting.check(3, hidden_size)
    return _run(setting, _gru_cell(linear_before_reset), _gru_bias(linear_before_reset), (2, 1))


# -- LSTM --------------------------------------------------------------------------------------------------------------
def _lstm_cell(P: Optional[Tensor], input_forget: int, product: Product) -> Callable[..., Cell]:
    def make(R: Tensor, inner: Optional[Tensor], functions: List[Activation], hidden: Extent, k: int) -> Cell:
        f, g, h = functions
        peephole = [None] * 3 if P is None else p.split(take_slice(P, k), 0, [hidden] * 3)

        def add_peephole(gate: Tensor, weights: Optional[Tensor], cell: Tensor) -> Any:
            return gate if weights is None else p.add(gate, p.mul(weights, cell))

        def cell(step: Tensor, H: Tensor, C: Tensor) -> List[Tensor]:
            i, o, forget, c = p.split(p.add(step, product(H, R, None, k)), 1, [hidden] * 4)
            i = f(add_peephole(i, peephole[0], C))
            forget = p.sub(1.0, i) if input_forget else f(add_peephole(forget, peephole[2], C))
            C = p.add(p.mul(forget, C), p.mul(i, g(c)))
            o = f(add_peephole(o, peephole[1], C))
            return [p.mul(o, h(C)), C]

        return cell

    return make


@op("LSTM", since=(14, 22))
def lstm(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Optional[Tensor] = None,
    sequence_lens: Optional[Tensor] = None,
    initial_h: Optional[Tensor] = None,
    initial_c: Optional[Tensor] = None,
    P: Optional[Tensor] = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: Optional[float] = None,
    direction: str = "forward",
    hidden_size: Optional[int] = None,
    input_forget: int = 0,
    layout: int = 0,
) -> List[Tensor]:
    """Return [outputs [steps, directions, batch, hidden], last hidden state, last cell state] of an LSTM."""
    initial = [initial_h, initial_c]
    functions = lstm_activations(activations, activation_alpha, activation_beta, clip, direction)
    _Network(X, W, R, B, sequence_lens, initial, functions, direction, layout).check(4, hidden_size, P)
    return run_lstm(X, W, R, B, sequence_lens, initial, P, functions, direction, input_forget, layout)


def lstm_activations(
    names: Sequence[str], alphas: Floats, betas: Floats, clip: Optional[float], direction: str
) -> List[Activation]:
    """Return the activations of an LSTM, three for each direction. `clip` bounds the arguments of the first two."""
    names = _activation_names(names, ["Sigmoid", "Tanh", "Tanh"], direction)
    return _resolve_activations(names, alphas, betas, [clip, clip, None])


def run_lstm(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Optional[Tensor],
    sequence_lens: Optional[Tensor],
    initial: Sequence[Any],
    P: Optional[Tensor],
    functions: List[Activation],
    direction: str,
    input_forget: int,
    layout: int = 0,
    products: Tuple[Product, Product] = (transposed_product, transposed_product),
) -> List[Tensor]:
    """Return [Y, last hidden state, last cell state] of an LSTM, without a check of shapes.

    The shapes of the results are those of `_run`. `initial` has the two initial states (None: zeros), and P the
    peephole weights (None: none). `products` has two functions: one multiplies the input by W, one multiplies the state
    by R.
    """
    setting = _Network(X, W, R, B, sequence_lens, initial, functions, direction, layout, products[0])
    return _run(setting, _lstm_cell(P, input_forget, products[1]), _sum_biases)


# -- older versions: batch always second; before 7 a flag for an output that was optional in any case ------------------
for _name, _function, _first in (("RNN", rnn, [1]), ("GRU", gru, [3]), ("LSTM", lstm, [1])):
    op(_name, since=7)(older_version(_function, without=["layout"]))
    op(_name, since=_first)(older_version(_function, without=["layout"], ignored=["output_sequence"]))
op("GRU", since=1)(older_version(gru, without=["layout", "linear_before_reset"], ignored=["output_sequence"]))
