"""Optimizer steps of ai.onnx.preview.training, on any number of tensors.

Inputs and outputs are grouped by kind: all tensors, then all gradients, then each kind of state.
"""

from typing import Any, Callable, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

_DOMAIN = "ai.onnx.preview.training"


def _apply_step(inputs: Sequence[Any], values_per_tensor: int, step: Callable[..., Sequence[Tensor]]) -> List[Tensor]:
    """Apply `step` to each tensor with its gradient and its states.

    Return all new tensors, then all new states of the first kind, and so on.

    - inputs: all tensors, then all gradients, then all states of the first kind, and so on.
    - values_per_tensor: the number of values for each tensor: the tensor, its gradient and its states.
    - step: a function (tensor, gradient, *states) -> (new tensor, *new states).

    Raises InvalidModelError if `inputs` is empty, or if its length is no multiple of `values_per_tensor`.
    """
    if not inputs or len(inputs) % values_per_tensor:
        raise InvalidModelError(
            "the optimizer takes %d values for each tensor, and has %d in total" % (values_per_tensor, len(inputs))
        )
    count = len(inputs) // values_per_tensor
    rows = [step(*inputs[k::count]) for k in range(count)]
    return [value for column in zip(*rows) for value in column]


@op("Adagrad", since=1, domain=_DOMAIN)
def adagrad(
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> List[Tensor]:
    """Return the new tensors, then their accumulated squared gradients, after a step of Adagrad.

    - R: the learning rate. The step uses R / (1 + T * decay_factor).
    - T: the number of previous steps.
    - inputs: all tensors, then all gradients, then all accumulated squared gradients.

    norm_coefficient * tensor is added to each gradient.

    Raises InvalidModelError if `inputs` is empty, or if its length is no multiple of 3.
    """
    rate = p.div(R, p.cast(T, R.dtype) * decay_factor + 1)

    def step(X: Tensor, G: Tensor, H: Tensor) -> Sequence[Tensor]:
        G = X * norm_coefficient + G
        H = H + G * G
        return X - rate * G / (p.sqrt(H) + epsilon), H

    return _apply_step(inputs, 3, step)


@op("Adam", since=1, domain=_DOMAIN)
def adam(
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> List[Tensor]:
    """Return the new tensors, then their first moments, then their second moments, after a step of Adam.

    - R: the learning rate. If T is above 0, R is corrected for the bias of the moments.
    - T: the number of previous steps.
    - inputs: all tensors, then all gradients, then all first moments, then all second moments.

    norm_coefficient * tensor is added to each gradient. Each new tensor is multiplied by 1 - norm_coefficient_post.

    Raises InvalidModelError if `inputs` is empty, or if its length is no multiple of 4.
    """
    step_count = p.cast(T, R.dtype)
    ratio = p.div(p.sqrt(1 - p.pow(beta, step_count)), 1 - p.pow(alpha, step_count))
    rate = p.where(p.greater(T, 0), p.mul(R, ratio), R)

    def step(X: Tensor, G: Tensor, V: Tensor, H: Tensor) -> Sequence[Tensor]:
        G = X * norm_coefficient + G
        V = V * alpha + G * (1 - alpha)
        H = H * beta + G * G * (1 - beta)
        return (X - rate * V / (p.sqrt(H) + epsilon)) * (1 - norm_coefficient_post), V, H

    return _apply_step(inputs, 4, step)


@op("Momentum", since=1, domain=_DOMAIN)
def momentum(
    R: Tensor, T: Tensor, *inputs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> List[Tensor]:
    """Return the new tensors, then their momenta, after a step of stochastic gradient descent with momentum.

    - R: the learning rate.
    - T: the number of previous steps.
    - inputs: all tensors, then all gradients, then all momenta.

    norm_coefficient * tensor is added to each gradient. A new momentum is alpha * momentum + beta * gradient; if T is
    0, `beta` counts as 1.

    Raises InvalidModelError if `mode` is neither "standard" nor "nesterov", if `inputs` is empty, or if the length of
    `inputs` is no multiple of 3.
    """
    if mode not in ("standard", "nesterov"):
        raise InvalidModelError("the mode of a Momentum is standard or nesterov, not %r" % mode)
    gradient_factor = p.where(p.greater(T, 0), lift(beta, R.dtype), lift(1, R.dtype))

    def step(X: Tensor, G: Tensor, V: Tensor) -> Sequence[Tensor]:
        G = X * norm_coefficient + G
        V = V * alpha + gradient_factor * G
        return X - R * (G + V * alpha if mode == "nesterov" else V), V

    return _apply_step(inputs, 3, step)
