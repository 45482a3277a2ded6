"""Types of the arguments of the reference's methods: arrays and lists of sizes."""

from typing import Any

import numpy as np

__all__ = ["Array", "SizesArg"]

Array = np.ndarray
SizesArg = Any  # `emission.Sizes` in an execution, `base.KnownSizes` in constant folding: their `known` holds ints
