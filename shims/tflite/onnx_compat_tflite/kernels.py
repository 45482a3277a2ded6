"""Kernels of the TFLite runtimes: the dtypes and ranks that each op accepts, on all runtimes or on newer runtimes only.

`kernel_facts` holds measurements: models of one op were run with and without the default delegate, and compared with numpy.
`Kernels` answers questions from these tables. `Kernels()` is for files that must run on every runtime.
`Kernels(open_interpreter)` is for a given runtime: it adds the facts of the next columns, as long as the runtime loads their
op versions.

The tables leave out these observations on tflite-runtime 2.7 and LiteRT 2.3. An author of emitter methods needs them:

Shapes
- Two inputs of different shapes and of rank over 4 end the process on 2.7, for ADD, MUL, comparisons, POW, SELECT_V2 and
  other ops ("broadcast rank 5"). SUB, DIV, MAXIMUM and MINIMUM broadcast up to rank 5. Inputs of equal shapes may have any
  rank. So broadcast the inputs first (BROADCAST_TO supports rank 6), or merge adjacent axes until the rank is 4.
- A RESHAPE to a scalar works, with the shape as an empty option or as an empty constant. A size of -1 works, also resized.
- The shape operand of RESHAPE, the indices of SCATTER_ND, begin and end of STRIDED_SLICE, the axes of a reduction, the
  permutation and TOPK_V2's k must be int32. An int64 permutation, or int64 PAD amounts on 2.7, give wrong numbers silently.
- Negative axes work in reductions; a reduction over no axes returns its input. WHERE accepts no scalar.
- REVERSE_V2 of several axes is wrong on 2.7: reverse one axis at a time. Grouped CONV_2D begins with 2.9: split it.
- CONV_2D and DEPTHWISE_CONV_2D refuse a missing bias; give zeros. FULLY_CONNECTED and TRANSPOSE_CONV need no bias.

Numbers
- int8, uint8 and int16 are quantised types to most kernels: without a scale ADD, SUB and comparisons divide by zero and
  end the process, MUL, SUM, MEAN and RELU give wrong numbers. Only the uses in the table are safe; else compute in int32.
- MAXIMUM and MINIMUM keep a NaN of the second input but drop one of the first. REDUCE_MAX on 2.7 drops every NaN, on
  LiteRT by position. RELU keeps NaN; RELU6 on 2.7 gives 0 for it.
- CAST of a float out of range saturates on LiteRT and wraps on 2.7. NaN to bool is True. Float to int truncates.
- DIV of int32 truncates; by zero it ends the process on 2.7 and is an error on LiteRT (also FLOOR_DIV, FLOOR_MOD).
- CAST from int64 to int32 keeps the low 32 bits (see `emitter.narrowing`). TOPK_V2 of a negative k is empty on LiteRT.
- SUM and MEAN add the elements one after the other, so rounding errors grow. XNNPACK does that too, along axes before the last
  (see `emitter.means`).
- FLOOR_MOD takes the divisor's sign (ONNX Mod with fmod=0). ROUND is half to even. POW of a negative base: NaN as in C.
- GATHER with an index out of range reads other memory on 2.7, and is an error on LiteRT. Negative indices are errors on both.
- Of equal elements, ARG_MAX and TOPK_V2 return the first.
- Without XNNPACK (on 2.7 always) ADD, SUB, MUL, DIV, FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D and the pools clip their
  results to the finite numbers: infinity becomes 3.4e38. CONV_3D clips too, and TRANSPOSE_CONV on LiteRT, which XNNPACK does
  not accept with an open size. BATCH_MATMUL, MEAN and RELU keep infinity.
- On 2.7 REDUCE_MAX of a tensor of -inf is the least finite number, and LOGISTIC is 1 from 15.9 on. On LiteRT LOGISTIC and TANH
  of float16 have the error of two roundings.
- With XNNPACK NaN becomes -inf in ADD, SUB, MUL and DIV of 2.11, and in MEAN of LiteRT 1.0 (see `runtime_quirks`).
- XNNPACK's LOGISTIC is NaN for some magnitudes from 4.8e26 to 2.4e38 (LiteRT 1.0 to 2.3). A bound before it costs a pass over
  the data for numbers that no network computes.
- XNNPACK of LiteRT 2.0 and 2.1.0 ignores the zero point of an int8 BATCH_MATMUL's second factor.
- TOPK_V2 of several rows without elements ends the process from 2.11 to LiteRT 2.1.0.
- A kernel that draws random numbers continues its sequence as long as the interpreter exists.

Graphs
- An operator on constants alone runs. An output may be an input, a constant, or another output again; a graph without
  operators runs too.
- Tensors without elements: 2.7 can neither set nor return them (skip `set_tensor`, create the result from the shape).
  All runtimes treat a constant without elements as a variable. XNNPACK refuses a BATCH_MATMUL over 0 elements.
- WHILE fails on a state that begins without elements, also on LiteRT.
- float16 weights: a constant, DEQUANTIZE, then the float32 operator: runs everywhere.
"""

import itertools
from typing import Dict, List, Optional, Tuple

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernel_facts import USES, VERSIONS
from onnx_compat_tflite.runtime_quirks import OpenInterpreter, RuntimeQuirks, measure_quirks

__all__ = ["Kernels"]


def _versions() -> Dict[str, List[int]]:
    """Return {op: its version in each column of VERSIONS}."""
    rows = (line.split() for line in VERSIONS.strip().splitlines())
    return {name: [int(version) for version in versions] for name, *versions in rows}


def _steps() -> List[List[Tuple[str, int]]]:
    """Return, for each column of VERSIONS after the first, the list of (op, version) pairs that are new in this column.

    A pair is new if its version is greater than the op's version in the column before.
    """
    columns = range(1, max(map(len, _VERSIONS.values())))
    return [
        [(name, row[column]) for name, row in _VERSIONS.items() if row[column] > row[column - 1]] for column in columns
    ]


def _uses() -> Dict[Tuple[str, str], Dict[str, int]]:
    """Return {(op, feature): {dtype: number of the first column of VERSIONS whose runtimes accept the dtype}}."""
    uses: Dict[Tuple[str, str], Dict[str, int]] = {}
    for line in USES.strip().splitlines():
        operator, features, types = line.split(":", 2)
        words = [word.partition(":") for word in types.split()]
        for feature in features.split(","):
            uses[operator, feature.strip()] = {dtype: int(step or 0) for dtype, _, step in words}
    return uses


#: Parts of the error messages of runtimes that lack an operator, or this version of the operator.
_UNKNOWN = ("Didn't find op", "builtin_code out of range", "Unresolved")
_VERSIONS = _versions()
_STEPS = _steps()
_USES = _uses()


class Kernels:
    """Answer which ops, versions and dtypes a file may use, for one runtime or for all runtimes.

    `interpreter` opens an interpreter of the target runtime; None: the file is for all runtimes. `plain` opens an
    interpreter of this runtime without the default delegate (XNNPACK), for `quirks`; None: `interpreter` is used.

    Some answers need the runtime: it loads small models at the first call. These answers are cached.
    """

    def __init__(self, interpreter: Optional[OpenInterpreter] = None, plain: Optional[OpenInterpreter] = None) -> None:
        self._interpreter = interpreter
        self._plain = plain or interpreter
        self._quirks: Optional[RuntimeQuirks] = None
        self._loadable: Dict[Tuple[str, int], bool] = {}
        self._runtime_step: Optional[int] = None

    def accepts(self, operator: str, dtype: str, feature: str = "plain") -> bool:
        """Whether the kernel of `operator` computes correct numbers for this dtype and `feature`, by the table USES.

        `feature` is a use that `kernel_facts` lists, such as "broadcast rank 5". If the kernels stand for all runtimes,
        the answer is that of the oldest. Returns False if the use was not measured.
        """
        step = _USES.get((operator, feature), {}).get(dtype)
        return step is not None and (step == 0 or step <= self._step())

    def _step(self) -> int:
        """Return the number of the column of VERSIONS that describes the runtime. 0 is the oldest runtime.

        It is the last column k for which the runtime loads all op versions that are new in the columns 1 to k. The
        runtime is tested once. If the kernels stand for all runtimes, the result is 0.
        """
        if self._runtime_step is None:
            has_step = (all(self._loads(*use) for use in new_versions) for new_versions in _STEPS)
            self._runtime_step = len(list(itertools.takewhile(bool, has_step)))
        return self._runtime_step

    def has(self, operator: str, version: int = 1) -> bool:
        """Whether the runtime has the op `operator` in this version. Dtypes are not considered: see `accepts`.

        - A version up to that of the oldest runtime: True.
        - A newer version, up to the newest in VERSIONS: whether the target runtime loads a tiny model of it. If the
          kernels stand for all runtimes: False.
        - A version above the newest in VERSIONS, or an op that VERSIONS lacks: False.
        """
        versions = _VERSIONS.get(operator, [0])
        return version <= versions[0] or (version <= max(versions) and self._loads(operator, version))

    @property
    def quirks(self) -> RuntimeQuirks:
        """The quirks of the runtime, measured at the first use; for all runtimes, the worst case of each quirk."""
        if self._quirks is None:
            if self._interpreter is None or self._plain is None:
                self._quirks = RuntimeQuirks()
            else:
                self._quirks = measure_quirks(self._interpreter, self._plain)
        return self._quirks

    def _loads(self, operator: str, version: int) -> bool:
        """Whether the runtime has a kernel for this version of the op: it loads a tiny model. The answer is cached.

        Returns True also if the kernel exists but refuses the tiny model, for example because options are missing.
        Returns False if the kernels stand for all runtimes.
        """
        if self._interpreter is None:
            return False
        if (operator, version) not in self._loadable:
            tensor = fb.TensorSpec("t", "float32", (1,))
            graph = fb.SubGraph([tensor], [fb.OperatorSpec(operator, [0], [0], version=version)], [0], [0])
            try:
                self._interpreter(model_content=fb.to_bytes(fb.ModelSpec([graph])))
                self._loadable[operator, version] = True
            except (RuntimeError, ValueError) as error:  # a kernel that exists may still refuse missing options
                self._loadable[operator, version] = not any(words in str(error) for words in _UNKNOWN)
        return self._loadable[operator, version]
