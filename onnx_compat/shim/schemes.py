"""Quantization schemes: what a shim offers, and what a user requests."""

from typing import Iterable, Mapping, NamedTuple, Optional

import numpy as np

__all__ = ["Quantization", "Scheme"]


class Scheme(NamedTuple):
    """A quantization scheme for the files of a shim.

    kind: its name.
    meaning: its description for users.
    fidelity: the least signal-to-noise ratio in dB of an output, compared with the model, unless a tolerance is given.
    calibrated: whether it needs calibration samples.
    blocks: whether each block of weights may have its own scale.
    """

    kind: str
    meaning: str
    fidelity: float
    calibrated: bool = False
    blocks: bool = False


class Quantization(NamedTuple):
    """The request to quantise a file: a scheme of the shim, and its inputs.

    samples: calibration feeds by the names of `Program.inputs`; empty if the scheme is not calibrated.
    block: the number of weights that share a scale; None: the weights of an output channel.
    """

    scheme: Scheme
    samples: Iterable[Mapping[str, np.ndarray]] = ()
    block: Optional[int] = None
