"""A runnable program of a shim."""

import abc
from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.shim.schemes import Scheme

__all__ = ["Compiled"]


class Compiled(abc.ABC):
    """A runnable program.

    native: the framework's own object; None without such an object.
    scheme: the quantization scheme of a loaded file; None if the file is not quantised.
    """

    native: Any = None
    scheme: Optional[Scheme] = None

    @abc.abstractmethod
    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the program. Return the carrier arrays of its outputs, in order.

        `arrays`: the carrier arrays of its inputs, in order.

        Several threads may call `run` at once.
        """

    @property
    def traces(self) -> int:
        """The number of times that the framework has traced or compiled the program; by default 1."""
        return 1
