"""An error of Keras is told by its cause, not by the heading that Keras puts before it."""

import keras
import pytest
from onnx_compat_keras.causes import cause_of


class Refusing(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types for its base class
    """A layer that refuses every input."""

    def call(self, x: object) -> object:
        raise ValueError("kernel of 5 is larger than\nthe image")


def test_an_error_of_a_layer_names_the_cause() -> None:
    with pytest.raises(ValueError, match="Exception encountered") as caught:
        Refusing()(keras.Input((3,)))
    assert cause_of(caught.value) == "ValueError: kernel of 5 is larger than"


@pytest.mark.parametrize(("text", "cause"), [("plain\nmore", "plain"), ("", "")])
def test_another_error_keeps_its_first_line(text: str, cause: str) -> None:
    assert cause_of(TypeError(text)) == "TypeError: " + cause
