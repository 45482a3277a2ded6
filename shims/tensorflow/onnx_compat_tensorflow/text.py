"""Strings, which TensorFlow holds as UTF-8."""

from typing import Any

from onnx_compat_tensorflow.base import Base

__all__ = ["Text"]


class Text(Base):
    """The primitives of `onnx_compat.primitives.text`."""

    def string_lower(self, x: Any) -> Any:
        return self.raw.StringLower(input=x, encoding="utf-8")

    def string_upper(self, x: Any) -> Any:
        return self.raw.StringUpper(input=x, encoding="utf-8")
