"""Strings, in object arrays."""

from typing import Any

import numpy as np

__all__ = ["Text"]

_LOWER = np.frompyfunc(str.lower, 1, 1)
_UPPER = np.frompyfunc(str.upper, 1, 1)


class Text:
    """The primitives of `onnx_compat.primitives.text`."""

    def string_lower(self, x: Any) -> Any:
        return np.asarray(_LOWER(x), object)

    def string_upper(self, x: Any) -> Any:
        return np.asarray(_UPPER(x), object)
