"""The declared sizes of a model's inputs, compared with the arrays of one feed."""

from typing import Dict, List, Optional, Sequence, Tuple, Union

from onnx_compat.errors import InputError
from onnx_compat.model import TensorType

__all__ = ["DeclaredSizes"]


class DeclaredSizes:
    """Compare the declared sizes of a model's inputs with the arrays of one feed. `check` compares a single array.

    onnxruntime enforces a static size, and a declared rank of 1 or more. It does not enforce these declarations:

    - A size name stands for one size.
    - An input that is declared as a scalar has rank 0.
    - The items of a sequence have the declared shapes.

    `contradictions`: a list to which a text is appended for each contradiction of such a declaration. None: such a
    contradiction raises InputError.
    """

    def __init__(self, contradictions: Optional[List[str]] = None) -> None:
        self.contradictions = contradictions
        self._sizes: Dict[str, Tuple[int, str]] = {}  # name of a size -> its first size, the input that has it

    def item(self) -> "DeclaredSizes":
        """Return a new `DeclaredSizes` for one item of a sequence: size names are compared within the item only.

        The new object has the same list `contradictions`.
        """
        return DeclaredSizes(self.contradictions)

    def contradict(self, reason: str, hint: Optional[str] = None, enforced: bool = False) -> None:
        """Append the text `reason` to `contradictions`, or raise InputError with `reason` and `hint` (None: no hint).

        InputError is raised if the contradiction is `enforced`, or if `contradictions` is None.
        """
        if enforced or self.contradictions is None:
            raise InputError(reason, hint=hint)
        self.contradictions.append(reason)

    def check(self, shape: Sequence[int], declared: TensorType, name: str, is_item: bool = False) -> None:
        """Compare a shape with the declared type, which has a known rank. `is_item`: the tensor is in a sequence.

        Raises InputError if the shape contradicts a declaration that onnxruntime enforces. Any other contradiction is
        appended to `contradictions`, or raises InputError if `contradictions` is None.
        """
        assert declared.shape is not None
        rank = len(declared.shape)
        if len(shape) != rank:
            self.contradict(
                "the input '%s' has rank %d (shape %s), the model takes rank %d: %s"
                % (name, len(shape), list(shape), rank, declared),
                hint="add an axis: array[None]" if len(shape) + 1 == rank else None,
                enforced=rank > 0 and not is_item,
            )
            return
        for axis, (size, expected) in enumerate(zip(shape, declared.shape)):
            if isinstance(expected, str):
                earlier_size, earlier_input = self._sizes.setdefault(expected, (size, name))
                if earlier_size != size:
                    self.contradict(
                        "the size '%s' is %d in the input '%s' and %d in '%s'"
                        % (expected, earlier_size, earlier_input, size, name),
                        hint="both inputs must agree on it",
                    )
            elif expected is not None and size != expected:
                self.contradict(
                    "the input '%s' has size %d on axis %d (shape %s), the model takes %s"
                    % (name, size, axis, list(shape), declared),
                    hint=_permutation_hint(shape, declared.shape),
                    enforced=not is_item,
                )


def _permutation_hint(shape: Sequence[int], declared: Sequence[Union[int, str, None]]) -> Optional[str]:
    """Return a hint to move the channel axis of an array if the moved shape fits the declared shape, else None.

    The moves are channels last to channels first, and the reverse. `declared` has as many sizes as `shape`. A rank
    below 3 gives None.
    """
    if len(shape) < 3:
        return None
    permutations = {
        "move the channels to axis 1: np.moveaxis(array, -1, 1)": (shape[0], shape[-1], *shape[1:-1]),
        "move the channels to the end: np.moveaxis(array, 1, -1)": (shape[0], *shape[2:], shape[1]),
    }
    for hint, permuted in permutations.items():
        if all(not isinstance(expected, int) or size == expected for size, expected in zip(permuted, declared)):
            return hint
    return None
