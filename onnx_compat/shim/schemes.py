"""Quantization schemes: what a shim offers, and what a user requests."""

from typing import Iterable, Mapping, NamedTuple, Optional, Tuple

import numpy as np

__all__ = ["Quantization", "Scheme"]


class Scheme(NamedTuple):
    """A quantization scheme that a shim offers for its files.

    - kind: its name, such as "int8".
    - meaning: its description for users.
    - fidelity: the lowest SNR in dB with which an output of a file is accepted. A tolerance of the user replaces it.
    - calibrated: whether the scheme needs calibration samples.
    - blocks: whether each block of weights may have its own scale.
    - port_types: the integer dtypes that inputs and outputs may have in place of float32.
    """

    kind: str
    meaning: str
    fidelity: float
    calibrated: bool = False
    blocks: bool = False
    port_types: Tuple[str, ...] = ()


class Quantization(NamedTuple):
    """A user's request to quantise a file: the scheme, the calibration samples, the block size and the types of ports.

    samples: calibration feeds by the names of `Program.inputs`; empty if the scheme is not calibrated.
    block: the number of weights that share a scale; None if the weights of an output channel share a scale.
    input_type, output_type: the dtype in the file of inputs (outputs) that are float32 in the model; None: float32.
    """

    scheme: Scheme
    samples: Iterable[Mapping[str, np.ndarray]] = ()
    block: Optional[int] = None
    input_type: Optional[str] = None
    output_type: Optional[str] = None
