"""A function of `keras.ops` or `keras.random` as an argument of an operation that a `.keras` file can keep."""

from typing import Any, Dict

import keras

__all__ = ["SavedFunction"]


class SavedFunction:
    """A callable that calls a function of `keras.ops` or `keras.random`, and that Keras can save and load.

    A file stores the public name of the function, such as `keras.ops.while_loop`. Keras would save a plain function
    without its module, and would not find it when the file is loaded.
    """

    name = ""
    namespace: Any = None

    @classmethod
    def of(cls, name: str, module: str = "ops") -> "SavedFunction":
        """Return the callable for `keras.<module>.<name>`."""
        # Keras reads the name and module of the class of an object.
        members = {"__module__": "keras." + module, "name": name, "namespace": getattr(keras, module)}
        kind: Any = type(name, (cls,), members)
        function: SavedFunction = kind()
        return function

    def __call__(self, *args: Any) -> Any:
        return getattr(self.namespace, self.name)(*args)

    def get_config(self) -> Dict[str, Any]:
        """Return an empty dict: Keras needs the name of the class only."""
        return {}
