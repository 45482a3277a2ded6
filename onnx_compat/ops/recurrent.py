"""RNN, GRU and LSTM: their activations, and a cell for each operator. `recurrent_network` runs the cells."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ops.activation import elu, hard_sigmoid, leaky_relu, softplus, softsign, thresholded_relu
from onnx_compat.ops.arguments import take_slice
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.recurrent_network import Activation, Cell, Network, Product, run_cell, transposed_product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor

Ints = Optional[Sequence[int]]
Floats = Sequence[float]

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


def _sum_biases(B: Optional[Tensor], hidden: Extent) -> Tuple[Any, Any]:
    """Return (input bias + state bias, None) for a cell whose gates add both biases; (None, None) without B.

    B is the vector of the input biases, then the state biases. `hidden` has no effect.
    """
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
    """Return [outputs, last state] of a simple recurrent network.

    `layout` gives the shapes of the results:

    - 0: outputs [steps, directions, batch, hidden], last state [directions, batch, hidden]
    - 1: outputs [batch, steps, directions, hidden], last state [batch, directions, hidden]

    Raises InvalidModelError for an unknown activation, and if an input or attribute does not fit the others (see
    `Network.check`).
    """
    functions = _resolve_activations(
        _activation_names(activations, ["Tanh"], direction), activation_alpha, activation_beta, [clip]
    )
    setting = Network(X, W, R, B, sequence_lens, [initial_h], functions, direction, layout)
    setting.check(1, hidden_size)
    return run_cell(setting, _rnn_cell, _sum_biases)


def _activation_names(names: Sequence[str], default: List[str], direction: str) -> Sequence[str]:
    """Return the names of the activations of all directions: `names`, or if it is empty, `default` for each direction.

    Superfluous names are dropped: the default of RNN in ONNX has two entries, also for a single direction. Raises
    InvalidModelError if there are too few names.
    """
    count = len(default) * (2 if direction == "bidirectional" else 1)
    if names and len(names) < count:
        raise InvalidModelError(
            "%d activations are given, where the direction %r needs %d" % (len(names), direction, count),
            hint="name %d activations for each direction, or none for the defaults" % len(default),
        )
    return list(names)[:count] if names else (default * 2)[:count]


# -- GRU ---------------------------------------------------------------------------------------------------------------
def _gru_cell(linear_before_reset: int) -> Callable[..., Cell]:
    """Return a function (R, bias, activations, hidden, k) -> cell of a GRU, as `run_cell` needs it.

    A cell maps (product of the gates z and r, product of the hidden gate, state) to [new state].
    """

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
    """Return [outputs, last state] of a GRU.

    `layout` gives the shapes of the results:

    - 0: outputs [steps, directions, batch, hidden], last state [directions, batch, hidden]
    - 1: outputs [batch, steps, directions, hidden], last state [batch, directions, hidden]

    Raises InvalidModelError for an unknown activation, and if an input or attribute does not fit the others (see
    `Network.check`).
    """
    names = _activation_names(activations, ["Sigmoid", "Tanh"], direction)
    functions = _resolve_activations(names, activation_alpha, activation_beta, [clip, clip])
    setting = Network(X, W, R, B, sequence_lens, [initial_h], functions, direction, layout)
    setting.check(3, hidden_size)
    return run_cell(setting, _gru_cell(linear_before_reset), _gru_bias(linear_before_reset), (2, 1))


# -- LSTM --------------------------------------------------------------------------------------------------------------
def _lstm_cell(P: Optional[Tensor], input_forget: int, product: Product) -> Callable[..., Cell]:
    """Return a function (R, bias, activations, hidden, k) -> cell of an LSTM, as `run_cell` needs it.

    A cell maps (product of all gates, hidden state, cell state) to [new hidden state, new cell state]. P has the
    peephole weights; None: no peepholes. `product` multiplies the hidden state by R.
    """

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
    """Return [outputs, last hidden state, last cell state] of an LSTM.

    `layout` gives the shapes of the results:

    - 0: outputs [steps, directions, batch, hidden], last states [directions, batch, hidden]
    - 1: outputs [batch, steps, directions, hidden], last states [batch, directions, hidden]

    Raises InvalidModelError for an unknown activation, and if an input or attribute does not fit the others (see
    `Network.check`).
    """
    initial = [initial_h, initial_c]
    functions = lstm_activations(activations, activation_alpha, activation_beta, clip, direction)
    Network(X, W, R, B, sequence_lens, initial, functions, direction, layout).check(4, hidden_size, P)
    return run_lstm(X, W, R, B, sequence_lens, initial, P, functions, direction, input_forget, layout)


def lstm_activations(
    names: Sequence[str], alphas: Floats, betas: Floats, clip: Optional[float], direction: str
) -> List[Activation]:
    """Return the activations of an LSTM, three for each direction. `clip` bounds the arguments of the first two.

    Raises InvalidModelError for an unknown name, and for fewer names than the directions need.
    """
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

    Y is [steps, directions, batch, hidden], a state [directions, batch, hidden]. If `layout` is 1, the batch is the
    first axis of X, of Y and of the states.

    - initial: the two initial states; None: zeros.
    - P: the peephole weights; None: no peepholes.
    - functions: the activations, three for each direction.
    - products: two functions: one multiplies the input by W, one multiplies the state by R.
    """
    setting = Network(X, W, R, B, sequence_lens, initial, functions, direction, layout, products[0])
    return run_cell(setting, _lstm_cell(P, input_forget, products[1]), _sum_biases)


# -- older versions: batch always second; before 7 a flag for an output that was optional in any case ------------------
for _name, _function, _first in (("RNN", rnn, [1]), ("GRU", gru, [3]), ("LSTM", lstm, [1])):
    op(_name, since=7)(older_version(_function, without=["layout"]))
    op(_name, since=_first)(older_version(_function, without=["layout"], ignored=["output_sequence"]))
op("GRU", since=1)(older_version(gru, without=["layout", "linear_before_reset"], ignored=["output_sequence"]))
