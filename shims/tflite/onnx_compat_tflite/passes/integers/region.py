"""Integer counterparts of the float tensors of a subgraph: a counterpart holds the integers of a dequantized tensor."""

from typing import Callable, Dict, List, Optional, Sequence, Set

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import QuantParams, are_exact, quantize
from onnx_compat_tflite.passes.integers.patterns import find_dequantized, find_quantized
from onnx_compat_tflite.passes.rewriter import ArrayLike, GraphRewriter, Option

__all__ = ["MaybeWriter", "QuantizedRegion", "Writer"]

#: A function of an integer tensor that appends the operators which compute this tensor.
Writer = Callable[[int], None]
MaybeWriter = Optional[Writer]

#: Moves: ops that copy elements or take a maximum of elements, so that they give the same result before and after quantization.
#: The data is the first input.
_MOVES = frozenset(
    "RESHAPE TRANSPOSE SLICE STRIDED_SLICE EXPAND_DIMS SQUEEZE PAD GATHER DEPTH_TO_SPACE SPACE_TO_DEPTH TILE MIRROR_PAD"
    " REVERSE_V2 RESIZE_NEAREST_NEIGHBOR MAX_POOL_2D PADV2".split()
)
#: Moves that insert a constant element. PAD inserts 0, which is stored as the zero point.
_PADS = ("PAD", "PADV2")


class QuantizedRegion:
    """A subgraph in which float tensors get integer counterparts.

    A counterpart is an integer tensor with a scale and a zero point that represents a float tensor. These tensors can
    have a counterpart:

    - the result of a DequantizeLinear
    - the result of a move (see `move_of`), such as a RESHAPE, whose input can have a counterpart

    `finish` inserts the operators that write counterparts. Float operators that then have no readers are dead code.

    quantized: a dict integer tensor -> `Quantized`, the QuantizeLinear that writes it.
    dequantized: a dict float tensor -> `Dequantized`, the DequantizeLinear that writes it.
    """

    def __init__(self, graph: GraphRewriter) -> None:
        self.graph = graph
        self.quantized, self.dequantized = find_quantized(graph), find_dequantized(graph)
        self._parameters: Dict[int, Set[QuantParams]] = {
            q: {quantized.parameters} for q, quantized in self.quantized.items()
        }
        for dequantized in self.dequantized.values():
            self._parameters.setdefault(dequantized.source, set()).add(dequantized.parameters)
        self._counterparts: Dict[int, int] = {}  # float tensor -> its counterpart
        self._signed: Dict[int, int] = {}  # integer tensor of the model -> signed integer tensor with a scale
        self._front: List[fb.OperatorSpec] = []
        self._behind: Dict[int, List[fb.OperatorSpec]] = {}  # the id of an operator -> the operators to insert after it
        self._erased: Set[int] = set()
        self._guards: Set[int] = set()
        self._target: List[fb.OperatorSpec] = self._front  # the list to which `append` adds operators

    # -- looking at tensors ------------------------------------------------------------------------------------------------
    def parameters_of(self, index: Optional[int]) -> Optional[QuantParams]:
        """Return the quantization parameters of the counterpart of the float tensor `index`, as signed parameters.

        Signed parameters have the dtype int8 in place of uint8 (see `QuantParams.signed`). The counterpart need not be
        computed yet. Returns None if

        - `index` has the value None,
        - the tensor is neither the result of a DequantizeLinear nor computed from such a result by moves only,
        - a QuantizeLinear writes the integers of the DequantizeLinear with other parameters,
        - another DequantizeLinear reads the integers with other parameters,
        - one of the moves is a PADV2 whose constant cannot be stored (see `_can_pad`).
        """
        if index is None:
            return None
        if index in self.dequantized:
            dequantized = self.dequantized[index]
            is_unique = len(self._parameters[dequantized.source]) == 1
            return dequantized.parameters.signed if is_unique else None
        move = self.move_of(index)
        parameters = None if move is None else self.parameters_of(move.inputs[0])
        return None if move is None or parameters is None or not self._can_pad(move, parameters) else parameters

    def _can_pad(self, move: fb.OperatorSpec, parameters: QuantParams) -> bool:
        """Whether integers with these parameters can store the constant that a PADV2 inserts. True for any other move.

        True if the parameters store the constant exactly (see `are_exact`). True also if all of these hold:

        - the constant is less than the least number that the parameters can store, for example -infinity
        - MAX_POOL_2D is the only op that reads the result of the PADV2
        - the result of the PADV2 is no output
        """
        if move.builtin != "PADV2":
            return True
        value = self.graph.constant(move.inputs[2])
        (result,) = move.outputs
        is_pooled = {reader.builtin for reader in self.graph.readers(result)} == {"MAX_POOL_2D"}
        is_below = bool((value < parameters.limits[0]).all())
        return are_exact(value, parameters) or (is_below and is_pooled and not self.graph.is_output(result))

    def move_of(self, index: Optional[int]) -> Optional[fb.OperatorSpec]:
        """Return the operator that writes the tensor `index`, if it is a move (see `_MOVES`) of a non-constant tensor.

        Returns None for any other operator, for a move of a constant, and for a tensor without a producer. Returns None
        also for a PADV2 whose inserted value is no constant.
        """
        op = self.graph.producer(index, *_MOVES)
        if op is None or self.graph.constant(op.inputs[0]) is not None:
            return None
        return None if op.builtin == "PADV2" and self.graph.constant(op.inputs[2]) is None else op

    def without_guard(self, index: int) -> Optional[int]:
        """Return the tensor t if a guard writes the tensor `index`. A guard is one of two forms:

        - SELECT_V2(NOT_EQUAL(y, y), y, t) restores NaN, which integers cannot store
        - SELECT_V2(LESS(number, x), y, t), where t is LOGISTIC(x), corrects the last digits of a LOGISTIC

        Returns None if another operator, or no operator, writes the tensor. Side effect: the two operators of the guard
        are recorded for `has_single_reader`.
        """
        guard = self.graph.producer(index, "SELECT_V2")
        test = None if guard is None else self.graph.producer(guard.inputs[0], "NOT_EQUAL", "LESS")
        if guard is None or test is None:
            return None
        logistic = self.graph.producer(guard.inputs[2], "LOGISTIC")
        if test.builtin == "LESS":
            is_known = logistic is not None and test.inputs[1] == logistic.inputs[0]
        else:
            is_known = test.inputs[0] == test.inputs[1] == guard.inputs[1]
        self._guards.update((id(guard), id(test)) if is_known else ())
        return guard.inputs[2] if is_known else None

    def has_single_reader(self, index: int) -> bool:
        """Whether at most one operator reads the tensor `index`, and the tensor is no output.

        Operators of the guards that `without_guard` has found, such as a SELECT_V2 that restores NaN, are not counted.
        An operator that reads the tensor twice, such as MUL(x, x), counts as two.
        """
        readers = [reader for reader in self.graph.readers(index) if id(reader) not in self._guards]
        return len(readers) <= 1 and not self.graph.is_output(index)

    # -- adding tensors and operators --------------------------------------------------------------------------------------
    def add_tensor(self, like: int, parameters: QuantParams) -> int:
        """Append an integer tensor with these parameters and the shape of the tensor `like`; return its index."""
        shaped = self.graph.tensor(like)
        return self.add_shaped(like, parameters, shaped.shape, shaped.shape_signature)

    def add_shaped(
        self, like: int, parameters: QuantParams, shape: Sequence[int], signature: Optional[Sequence[int]]
    ) -> int:
        """Append an integer tensor with these parameters and this shape, and return its index.

        `like`: the tensor whose name begins the new name. `signature`: the shape with -1 for open sizes, or None
        without open sizes.
        """
        name = "%s/%s_%d" % (self.graph.tensor(like).name, parameters.dtype, self.graph.tensor_count)
        return self.graph.add_tensor(name, parameters.dtype, shape, signature, parameters.quantization)

    def add_constant(self, array: ArrayLike, quantization: Optional[fb.Quantization] = None) -> int:
        """Append a constant with the dtype and shape of `array`, and return its index.

        `quantization` None: the constant is not quantised.
        """
        name = "%s/integers_%d" % (self.graph.name, self.graph.tensor_count)
        return self.graph.add_constant(name, np.ascontiguousarray(array), quantization)

    def append(self, builtin: str, inputs: Sequence[Optional[int]], output: int, **options: Option) -> None:
        """Record a new operator that writes the tensor `output`; `finish` inserts it into the subgraph.

        The operator is added to `_target`, the list of new operators for one position of the subgraph.
        """
        self._target.append(fb.OperatorSpec(builtin, inputs, [output], options))

    def append_move(self, move: fb.OperatorSpec, source: int, output: int) -> None:
        """Record an operator that applies the float operator `move` to integers; `finish` inserts it into the subgraph.

        The new operator reads the integer tensor `source` and writes the integer tensor `output`. Its other inputs and
        its options are those of `move`. The inserted value of a PADV2 is quantised with the parameters of `output`.
        """
        rest = list(move.inputs[1:])
        if move.builtin == "PADV2":
            parameters = self.parameters_of_integers(output)
            padding = quantize(self.graph.constant(rest[1]), parameters)
            rest[1] = self.add_constant(padding, parameters.quantization)
        self._target.append(fb.OperatorSpec(move.builtin, [source, *rest], [output], dict(move.options)))

    def parameters_of_integers(self, index: int) -> QuantParams:
        """Return the parameters of an integer tensor. The tensor must have a scale and a zero point, per tensor."""
        tensor = self.graph.tensor(index)
        assert tensor.quantization is not None
        return QuantParams(tensor.quantization.scale[0], tensor.quantization.zero_point[0], tensor.dtype)

    # -- counterparts ------------------------------------------------------------------------------------------------------
    def integers_of(self, index: int) -> int:
        """Return the index of the counterpart of a float tensor.

        At the first use, the tensor is appended, and the operators that compute it are recorded for `finish`.
        `parameters_of` must not be None for the float tensor.
        """
        if index not in self._counterparts:
            if index in self.dequantized:
                dequantized = self.dequantized[index]
                self._counterparts[index] = self._signed_integers(dequantized.source, dequantized.parameters)
            else:
                move, parameters = self.move_of(index), self.parameters_of(index)
                assert move is not None and move.inputs[0] is not None and parameters is not None
                self._counterparts[index] = self._moved_integers(move, self.integers_of(move.inputs[0]), parameters)
        return self._counterparts[index]

    def _moved_integers(self, move: fb.OperatorSpec, source: int, parameters: QuantParams) -> int:
        result = self.add_tensor(move.outputs[0], parameters)
        outer, self._target = self._target, self._behind.setdefault(id(move), [])
        self.append_move(move, source, result)
        self._target = outer
        return result

    def _signed_integers(self, index: int, parameters: QuantParams) -> int:
        """Return the index of a signed integer tensor with a scale, for the integer tensor `index` of the model.

        `parameters` are those of a DequantizeLinear that reads the model's tensor. The result has the same real
        numbers.

        - The model's tensor itself gets the scale if `parameters` are signed, and only CASTs read it. It must also be
          an input of the subgraph, or be written by a QuantizeLinear.
        - Otherwise the result is a new tensor.

        At the first use, the operators that compute the result are recorded for `finish`.
        """
        if index not in self._signed:
            outer = self._target
            self._signed[index] = self._find_signed(index, parameters)
            self._target = outer
        return self._signed[index]

    def _find_signed(self, index: int, parameters: QuantParams) -> int:
        quantized = self.quantized.get(index)
        if quantized is not None:  # floats enter the region
            return self.write_quantized(index, lambda result: self.append("QUANTIZE", [quantized.source], result))
        move = self.move_of(index)
        if move is None or move.builtin in _PADS or move.inputs[0] is None:
            move = None
        elif self._parameters.get(move.inputs[0], {parameters}) == {parameters}:
            source = self._signed_integers(move.inputs[0], parameters)
            return self._moved_integers(move, source, parameters.signed)
        writer = next((op for op in self.graph.operators if index in op.outputs), None)
        self._target = self._front if writer is None else self._behind.setdefault(id(writer), [])
        return self._with_parameters(index, parameters)

    def _with_parameters(self, index: int, parameters: QuantParams) -> int:
        """Return the index of a signed tensor with a scale for the same real numbers as the integer tensor `index`.

        - If the tensor `index` is an input that only CASTs read, the tensor itself gets `parameters`.
        - Otherwise a new copy of the tensor gets `parameters`.

        If `parameters` are signed, this tensor is the result. If they are unsigned, the result is a QUANTIZE of this
        tensor to int8.
        """
        if index in self.graph.inputs and self._has_only_casts(index):
            self.graph.set_quantization(index, parameters.quantization)
            marked = index
        else:
            marked = self.add_tensor(index, parameters)
            self._append_copy(index, marked)
        if parameters == parameters.signed:
            return marked
        shifted = self.add_tensor(index, parameters.signed)
        self.append("QUANTIZE", [marked], shifted)
        return shifted

    def write_quantized(self, index: int, write: Writer) -> int:
        """Replace the QuantizeLinear that writes the tensor `index` by the operators that the Writer `write` records.

        Calls `write` with the index of a signed integer tensor that has a scale, and returns this index. It is `index`
        itself if the parameters are signed and only CASTs read the tensor. Otherwise a QUANTIZE, a copy, or both
        compute the tensor `index` from the signed tensor. `finish` completes the replacement.
        """
        quantized = self.quantized[index]
        self._target = self._behind.setdefault(id(quantized.last), [])
        self._erased.add(id(quantized.last))
        parameters, signed = quantized.parameters, quantized.parameters.signed
        is_direct = self._has_only_casts(index)
        if is_direct:
            self.graph.set_quantization(index, parameters.quantization)
        result = index if is_direct and parameters == signed else self.add_tensor(index, signed)
        self._signed[index] = result
        write(result)
        marked = result
        if parameters != signed:
            marked = index if is_direct else self.add_tensor(index, parameters)
            self.append("QUANTIZE", [result], marked)
        if not is_direct:
            self._append_copy(marked, index)
        return result

    def _has_only_casts(self, index: int) -> bool:
        """Whether only CASTs, which ignore a scale, read the tensor. True without readers."""
        return all(reader.builtin == "CAST" for reader in self.graph.readers(index))

    def _append_copy(self, source: int, output: int) -> None:
        """Record a RESHAPE that copies the integers of the tensor `source` to the tensor `output`; `finish` inserts it.

        The copy keeps the integers also if the scales of the two tensors differ or are missing, because RESHAPE ignores
        scales. If several sizes are open, or one beside a size of 0, a SHAPE computes the shape. Otherwise the shape is
        a constant: RESHAPE divides the number of elements by the other sizes to find the open size.
        """
        sizes = list(self.graph.sizes(output))
        open_count = sum(size < 0 for size in sizes)
        if open_count == 0 or (open_count == 1 and 0 not in sizes):
            shape = self.add_constant(np.asarray(sizes, np.int32))
        else:
            shape = self.graph.add_tensor("%s/shape_%d" % (self.graph.name, output), "int32", (len(sizes),))
            self.append("SHAPE", [source], shape, out_type="int32")
        self.append("RESHAPE", [source, shape], output)

    def _has_counterpart(self, index: Optional[int]) -> bool:
        """Whether `finish` replaces the operator that writes the float tensor `index` by a DEQUANTIZE of a counterpart.

        True for the result of a DequantizeLinear whose integers have been requested (see `_signed_integers`). True for
        a move of such a tensor, except PADV2. False for any other tensor, and if `parameters_of` is None.
        """
        if self.parameters_of(index) is None or index is None:
            return False
        if index in self.dequantized:
            return self.dequantized[index].source in self._signed
        move = self.move_of(index)
        return move is not None and move.builtin != "PADV2" and self._has_counterpart(move.inputs[0])

    # -- insertion of the operators ----------------------------------------------------------------------------------------
    def finish(self) -> None:
        """Insert the recorded operators into the subgraph, and remove the operators that they replace.

        A float tensor for which `_has_counterpart` is True is then written by a DEQUANTIZE of its counterpart. If no
        operator reads the float tensor, the DEQUANTIZE is dead code.
        """
        for op in self.graph.operators:
            index = op.outputs[0] if op.outputs else -1
            if self._has_counterpart(index):
                self._erased.add(id(op))
                integers = self.integers_of(index)
                dequantize = fb.OperatorSpec("DEQUANTIZE", [integers], [index])
                self._behind.setdefault(id(op), []).append(dequantize)
        kept = list(self._front)
        for op in self.graph.operators:
            if id(op) not in self._erased:
                kept.append(op)
            kept.extend(self._behind.get(id(op), []))
        self.graph.reorder(kept)
        self._bypass_idle_quantize()

    def _bypass_idle_quantize(self) -> None:
        """Let readers of a QUANTIZE without an effect read its input.

        - QUANTIZE(x, parameters of x) => x
        - QUANTIZE(QUANTIZE(x, uint8), int8) => x

        In the second form, x is int8, and all three tensors represent the same real numbers. The form with int8 and
        uint8 exchanged is rewritten too. The bypassed QUANTIZE stays. A QUANTIZE that writes an output of the subgraph
        is not bypassed.
        """
        same: Dict[int, int] = {}
        before: Dict[int, int] = {}
        for op in self.graph.operators:
            if any(index in same for index in op.inputs):
                self.graph.set_inputs(op, [index if index is None else same.get(index, index) for index in op.inputs])
            source, output = op.inputs[0] if op.inputs else None, op.outputs[0]
            if op.builtin != "QUANTIZE" or source is None or self.graph.tensor(source).quantization is None:
                continue
            parameters = self.parameters_of_integers(output)
            candidates = [index for index in (source, before.get(source)) if index is not None]
            origin = next((index for index in candidates if self.parameters_of_integers(index) == parameters), None)
            if origin is not None and not self.graph.is_output(output):
                same[output] = origin
            elif self.parameters_of_integers(source).signed == parameters.signed:
                before[output] = source
