"""What the TFLite kernels do: which types and ranks each takes on every runtime, and which only newer ones add.

`kernel_facts` holds what was measured, one-operator models against numpy, with the default delegate and without; ask it
through `Kernels`. A file should run everywhere, so `Kernels()` knows the common facts alone; `Kernels(Interpreter)` adds
what the given runtime turns out to have, by the operator versions that it loads.

What a table cannot say, seen on tflite-runtime 2.7 and LiteRT 2.3, for whoever writes operators with these kernels:

Shapes
- Two inputs of different shape and rank over 4 end the process on 2.7 for ADD, MUL, comparisons, POW, SELECT_V2 and
  more ("broadcast rank 5"). Bring them to one shape first (BROADCAST_TO takes 6 dimensions), or merge neighbouring axes
  until 4 are left. SUB, DIV, MAXIMUM and MINIMUM do 5, none of them 6. Equal shapes: any rank.
- A RESHAPE to a scalar works, with the shape as an empty option or as an empty constant. -1 in it works, also resized.
- The shape operand of RESHAPE, the indices of SCATTER_ND, begin and end of STRIDED_SLICE, the axes of a reduction, the
  permutation and TOPK_V2's k must be int32. An int64 permutation, or int64 PAD amounts on 2.7, give wrong numbers silently.
- Negative axes work in reductions; no axes at all leave the tensor as it is. WHERE takes no scalar.
- REVERSE_V2 of several axes is wrong on 2.7: reverse one axis at a time. Grouped CONV_2D begins with 2.9: split it.
- CONV_2D and DEPTHWISE_CONV_2D refuse a missing bias; give zeros. FULLY_CONNECTED and TRANSPOSE_CONV do without.

Numbers
- int8, uint8 and int16 are quantised types to most kernels: without a scale ADD, SUB and comparisons divide by zero and
  end the process, MUL, SUM, MEAN and RELU give wrong numbers. Only what the table lists is safe; else compute in int32.
- MAXIMUM and MINIMUM keep a NaN of the second input but drop one of the first. REDUCE_MAX on 2.7 drops every NaN, on
  LiteRT by position. RELU keeps NaN; RELU6 on 2.7 gives 0 for it.
- CAST of a float out of range saturates on LiteRT and wraps on 2.7. NaN to bool is True. Float to int truncates.
- DIV of int32 truncates; by zero it ends the process on 2.7 and is an error on LiteRT (also FLOOR_DIV, FLOOR_MOD).
- CAST from int64 to int32 keeps the low 32 bits (see `emitter.narrowing`). TOPK_V2 of a negative k is empty on LiteRT.
- SUM and MEAN add up one element after the other, XNNPACK too along axes before the last (see `emitter.means`).
- FLOOR_MOD takes the divisor's sign (ONNX Mod with fmod=0). ROUND is half to even. POW of a negative base: NaN as in C.
- GATHER out of range reads foreign memory on 2.7 and is an error on LiteRT; negative indices are an error on both.
- ARG_MAX takes the first of equals, TOPK_V2 too.
- Without XNNPACK (on 2.7 always) ADD, SUB, MUL, DIV, FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D and the pools hold their
  results to the finite numbers: infinity becomes 3.4e38. So do CONV_3D, and on LiteRT TRANSPOSE_CONV, which XNNPACK does not take
  with an open size. BATCH_MATMUL, MEAN and RELU keep infinity.
- On 2.7 REDUCE_MAX of nothing but -inf is the least finite number, and LOGISTIC is 1 from 15.9 on. On LiteRT LOGISTIC and TANH of float16 are off by two roundings.
- With XNNPACK NaN becomes -inf in ADD, SUB, MUL and DIV of 2.11, and in MEAN of LiteRT 1.0 (see `manners`).
- XNNPACK of LiteRT 2.0 and 2.1.0 takes the zero point of an int8 BATCH_MATMUL's second factor for zero.
- TOPK_V2 of no elements of several rows ends the process from 2.11 to LiteRT 2.1.0.
- A kernel that draws random numbers draws on from its seed as long as the interpreter lives.

Graphs
- An operator on constants alone runs. An output may be an input, a constant, or another output again; no operator at
  all is fine too.
- Tensors without elements: 2.7 can neither be given nor asked for one (skip `set_tensor`, make the result from the
  shape); a constant without elements is not a constant to any runtime. XNNPACK refuses a BATCH_MATMUL over 0 elements.
- WHILE fails on a state that begins without elements, also on LiteRT.
- float16 weights: a constant, DEQUANTIZE, then the float32 operator: runs everywhere.
"""

import itertools
from typing import Any, Dict, List, Optional, Tuple

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernel_facts import USES, VERSIONS
from onnx_compat_tflite.runtime_quirks import Manners, observed

__all__ = ["Kernels"]


def _versions() -> Dict[str, List[int]]:
    rows = (line.split() for line in VERSIONS.strip().splitlines())
    return {name: [int(version) for version in versions] for name, *versions in rows}


def _steps() -> List[List[Tuple[str, int]]]:
    """For each runtime but the oldest: the operator versions that begin with it."""
    columns = range(1, max(map(len, _VERSIONS.values())))
    return [[(name, row[at]) for name, row in _VERSIONS.items() if row[at] > row[at - 1]] for at in columns]


def _uses() -> Dict[Tuple[str, str], Dict[str, int]]:
    """Of an operator and a feature: each type, and the step from which on it works."""
    uses: Dict[Tuple[str, str], Dict[str, int]] = {}
    for line in USES.strip().splitlines():
        operator, features, types = line.split(":", 2)
        words = [word.partition(":") for word in types.split()]
        for feature in features.split(","):
            uses[operator, feature.strip()] = {dtype: int(step or 0) for dtype, _, step in words}
    return uses


#: How a runtime says that it has no such operator, or not in this version.
_UNKNOWN = ("Didn't find op", "builtin_code out of range", "Unresolved")
_VERSIONS = _versions()
_STEPS = _steps()
_USES = _uses()


class Kernels:
    """Answers what may be written into a file. `interpreter` is a runtime's Interpreter class to write for, `plain` makes
    one without its default delegate; None: for all runtimes.
    """

    def __init__(self, interpreter: Optional[Any] = None, plain: Optional[Any] = None) -> None:
        self._interpreter = interpreter
        self._plain = plain or interpreter
        self._manners: Optional[Manners] = None
        self._known: Dict[Tuple[str, int], bool] = {}
        self._taken: Optional[int] = None

    def accepts(self, operator: str, dtype: str, feature: str = "plain") -> bool:
        """Whether the kernel takes this type and gives the right numbers. Features are named in `kernel_facts`.

        A use that was never measured is not accepted.
        """
        step = _USES.get((operator, feature), {}).get(dtype)
        return step is not None and (step == 0 or step <= self._step())

    def _step(self) -> int:
        """How many of the steps from the oldest runtime to the newest this one has taken; none where it is not known."""
        if self._taken is None:
            taken = (all(self._loads(*one) for one in begun) for begun in _STEPS)
            self._taken = len(list(itertools.takewhile(bool, taken)))
        return self._taken

    def has(self, operator: str, version: int = 1) -> bool:
        """Whether the operator exists in this version, whatever its types: for those that no table of types describes."""
        known = _VERSIONS.get(operator, [0])
        return version <= known[0] or (version <= max(known) and self._loads(operator, version))

    @property
    def manners(self) -> Manners:
        """How numbers that are not finite are treated."""
        if self._manners is None:
            self._manners = Manners() if self._interpreter is None else observed(self._interpreter, self._plain)
        return self._manners

    def _loads(self, operator: str, version: int) -> bool:
        """A trial: a runtime refuses an operator version that it does not know when it loads the model."""
        if self._interpreter is None:
            return False
        if (operator, version) not in self._known:
            tensor = fb.TensorSpec("t", "float32", (1,))
            graph = fb.SubGraph([tensor], [fb.OperatorSpec(operator, [0], [0], version=version)], [0], [0])
            try:
                self._interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
                self._known[operator, version] = True
            except (RuntimeError, ValueError) as error:  # a kernel that is there may still miss its options
                self._known[operator, version] = not any(words in str(error) for words in _UNKNOWN)
        return self._known[operator, version]
