"""Where numbers of a subgraph are quantized: tensors of integers beside those of floats, and who writes them."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.grid import Grid, holds, on_grid
from onnx_compat_tflite.passes.integers.pairs import dequantized, quantized
from onnx_compat_tflite.passes.view import View

__all__ = ["Found", "Plan", "Region"]

#: Writes a tensor of a grid that it is given.
Plan = Callable[[int], None]
Found = Optional[Plan]

#: What moves numbers, or takes the largest: quantizing before it or after it is the same. The data is the first input.
_MOVES = frozenset(
    "RESHAPE TRANSPOSE SLICE STRIDED_SLICE EXPAND_DIMS SQUEEZE PAD GATHER DEPTH_TO_SPACE SPACE_TO_DEPTH TILE MIRROR_PAD"
    " REVERSE_V2 RESIZE_NEAREST_NEIGHBOR MAX_POOL_2D PADV2".split()
)
#: What puts a number beside them, which is zero before it is a zero point.
_PADS = ("PAD", "PADV2")


class Region:
    """Each tensor of floats that a DequantizeLinear gives (or a move of one) may have a twin of integers. Operators that
    write twins go behind those that write the floats; what is then not read is swept away.
    """

    def __init__(self, graph: fb.SubGraph) -> None:
        self.graph, self.view = graph, View(graph)
        self.quantized, self.dequantized = quantized(self.view), dequantized(self.view)
        self._grids: Dict[int, Set[Grid]] = {q: {one.grid} for q, one in self.quantized.items()}
        for one in self.dequantized.values():
            self._grids.setdefault(one.source, set()).add(one.grid)
        self._twins: Dict[int, int] = {}
        self._bases: Dict[int, int] = {}
        self._front: List[fb.OperatorSpec] = []
        self._behind: Dict[int, List[fb.OperatorSpec]] = {}
        self._gone: Set[int] = set()
        self._guards: Set[int] = set()
        self._here: List[fb.OperatorSpec] = self._front

    # -- what is there -----------------------------------------------------------------------------------------------------
    def grid_of(self, index: Optional[int]) -> Optional[Grid]:
        """The grid on which the twin of a tensor of floats would be."""
        if index is None:
            return None
        if index in self.dequantized:
            one = self.dequantized[index]
            return one.grid.signed if len(self._grids[one.source]) == 1 else None
        move = self.move(index)
        grid = None if move is None else self.grid_of(move.inputs[0])
        return None if move is None or grid is None or not self._pads_on_grid(move, grid) else grid

    def _pads_on_grid(self, move: fb.OperatorSpec, grid: Grid) -> bool:
        """Whether the constant of a PADV2 is on the grid of its input; or below it, where only MAX_POOL_2D reads it."""
        if move.builtin != "PADV2":
            return True
        value = self.view.constant(move.inputs[2])
        readers = self.view.readers(move.outputs[0])
        pooled = move.outputs[0] not in self.graph.outputs and {one.builtin for one in readers} == {"MAX_POOL_2D"}
        return holds(value, grid) or (pooled and bool((value < grid.ends[0]).all()))

    def move(self, index: Optional[int]) -> Optional[fb.OperatorSpec]:
        """The operator that writes a tensor, if it moves numbers and nothing else."""
        found = self.view.writer(index, *_MOVES)
        if found is None or self.view.constant(found.inputs[0]) is not None:
            return None
        return None if found.builtin == "PADV2" and self.view.constant(found.inputs[2]) is None else found

    def guarded(self, index: int) -> Optional[int]:
        """What a tensor is but for NaN, which integers are not, and for the last digits of a LOGISTIC."""
        guard = self.view.writer(index, "SELECT_V2")
        looks = None if guard is None else self.view.writer(guard.inputs[0], "NOT_EQUAL", "LESS")
        if guard is None or looks is None:
            return None
        logistic = self.view.writer(guard.inputs[2], "LOGISTIC")
        if looks.builtin == "LESS":
            known = logistic is not None and looks.inputs[1] == logistic.inputs[0]
        else:
            known = looks.inputs[0] == looks.inputs[1] == guard.inputs[1]
        self._guards.update((id(guard), id(looks)) if known else ())
        return guard.inputs[2] if known else None

    def alone(self, index: int) -> bool:
        """Whether one operator needs the tensor, and nobody else but those guards."""
        readers = [reader for reader in self.view.readers(index) if id(reader) not in self._guards]
        return len(readers) <= 1 and index not in self.graph.outputs

    # -- making tensors and operators --------------------------------------------------------------------------------------
    def tensor(self, like: int, grid: Grid) -> int:
        """A new tensor of integers, of the shape of another tensor."""
        shaped = self.graph.tensors[like]
        name = "%s/%s_%d" % (shaped.name, grid.dtype, len(self.graph.tensors))
        made = fb.TensorSpec(name, grid.dtype, shaped.shape, shape_signature=shaped.shape_signature)
        made.quantization = grid.quantization
        return self.graph.add(made)

    def constant(self, array: Any, quantization: Optional[fb.Quantization] = None) -> int:
        name = "%s/integers_%d" % (self.graph.name, len(self.graph.tensors))
        array = np.ascontiguousarray(array)
        return self.graph.add(fb.TensorSpec(name, array.dtype.name, array.shape, array, quantization=quantization))

    def put(self, builtin: str, inputs: Sequence[Optional[int]], output: int, **options: Any) -> None:
        self._here.append(fb.OperatorSpec(builtin, inputs, [output], options))

    def moved(self, move: fb.OperatorSpec, source: int, output: int) -> None:
        """What a move does, to integers."""
        rest = list(move.inputs[1:])
        if move.builtin == "PADV2":
            grid = self.grid(output)
            rest[1] = self.constant(on_grid(self.view.constant(rest[1]), grid), grid.quantization)
        self._here.append(fb.OperatorSpec(move.builtin, [source, *rest], [output], dict(move.options)))

    def grid(self, index: int) -> Grid:
        """The grid of a tensor that was made here."""
        tensor = self.graph.tensors[index]
        assert tensor.quantization is not None
        return Grid(tensor.quantization.scale[0], tensor.quantization.zero_point[0], tensor.dtype)

    # -- twins -------------------------------------------------------------------------------------------------------------
    def twin(self, index: int) -> int:
        """The integers of a tensor of floats that has a grid."""
        if index not in self._twins:
            if index in self.dequantized:
                one = self.dequantized[index]
                self._twins[index] = self._base(one.source, one.grid)
            else:
                move, grid = self.move(index), self.grid_of(index)
                assert move is not None and move.inputs[0] is not None and grid is not None
                self._twins[index] = self._moved_twin(move, self.twin(move.inputs[0]), grid)
        return self._twins[index]

    def _moved_twin(self, move: fb.OperatorSpec, source: int, grid: Grid) -> int:
        made = self.tensor(move.outputs[0], grid)
        outer, self._here = self._here, self._behind.setdefault(id(move), [])
        self.moved(move, source, made)
        self._here = outer
        return made

    def _base(self, index: int, grid: Grid) -> int:
        """The tensor of signed integers with a grid that stands for one of the model's."""
        if index not in self._bases:
            outer = self._here
            self._bases[index] = self._found(index, grid)
            self._here = outer
        return self._bases[index]

    def _found(self, index: int, grid: Grid) -> int:
        one = self.quantized.get(index)
        if one is not None:  # a number that comes into the region
            return self.written(index, lambda made: self.put("QUANTIZE", [one.source], made))
        move = self.move(index)
        if move is None or move.builtin in _PADS or move.inputs[0] is None:
            move = None
        elif self._grids.get(move.inputs[0], {grid}) == {grid}:
            return self._moved_twin(move, self._base(move.inputs[0], grid), grid.signed)
        writer = next((one for one in self.graph.operators if index in one.outputs), None)
        self._here = self._front if writer is None else self._behind.setdefault(id(writer), [])
        return self._marked(index, grid)

    def _marked(self, index: int, grid: Grid) -> int:
        """Integers that come from elsewhere, with what they stand for."""
        if index in self.graph.inputs and self._only_cast(index):
            self.graph.tensors[index].quantization = grid.quantization
            marked = index
        else:
            marked = self.tensor(index, grid)
            self._copy(index, marked)
        if grid == grid.signed:
            return marked
        shifted = self.tensor(index, grid.signed)
        self.put("QUANTIZE", [marked], shifted)
        return shifted

    def written(self, index: int, plan: Plan) -> int:
        """Let the integers of a QuantizeLinear be written in another way; gives the signed ones."""
        one = self.quantized[index]
        self._here = self._behind.setdefault(id(one.last), [])
        self._gone.add(id(one.last))
        grid, signed = one.grid, one.grid.signed
        plain = self._only_cast(index)
        if plain:
            self.graph.tensors[index].quantization = grid.quantization
        made = index if plain and grid == signed else self.tensor(index, signed)
        self._bases[index] = made
        plan(made)
        marked = made
        if grid != signed:
            marked = index if plain else self.tensor(index, grid)
            self.put("QUANTIZE", [made], marked)
        if not plain:
            self._copy(marked, index)
        return made

    def _only_cast(self, index: int) -> bool:
        """Whether no kernel reads the tensor that would ask for its scale."""
        return all(reader.builtin == "CAST" for reader in self.view.readers(index))

    def _copy(self, source: int, output: int) -> None:
        """A RESHAPE asks for no scales."""
        sizes = list(self.view.sizes(output))
        if sum(size < 0 for size in sizes) <= 1:
            shape = self.constant(np.asarray(sizes, np.int32))
        else:
            shape = self.graph.add(fb.TensorSpec("%s/shape_%d" % (self.graph.name, output), "int32", (len(sizes),)))
            self.put("SHAPE", [source], shape, out_type="int32")
        self.put("RESHAPE", [source, shape], output)

    def _has_twin(self, index: Optional[int]) -> bool:
        """Whether the integers of a tensor of floats are there, but for a move of them."""
        if self.grid_of(index) is None or index is None:
            return False
        if index in self.dequantized:
            return self.dequantized[index].source in self._bases
        move = self.move(index)
        return move is not None and move.builtin != "PADV2" and self._has_twin(move.inputs[0])

    # -- the end -----------------------------------------------------------------------------------------------------------
    def finish(self) -> None:
        """Put the new operators into their places, and go back to floats where they are still read."""
        for operator in self.graph.operators:
            index = operator.outputs[0] if operator.outputs else -1
            if self._has_twin(index):
                self._gone.add(id(operator))
                twin = self.twin(index)
                self._behind.setdefault(id(operator), []).append(fb.OperatorSpec("DEQUANTIZE", [twin], [index]))
        kept = list(self._front)
        for operator in self.graph.operators:
            if id(operator) not in self._gone:
                kept.append(operator)
            kept.extend(self._behind.get(id(operator), []))
        self.graph.operators = kept
        self._drop_idle()

    def _drop_idle(self) -> None:
        """Integers that stay what they are, or go to bytes of the other sign and come back, need no QUANTIZE."""
        same: Dict[int, int] = {}
        before: Dict[int, int] = {}
        for operator in self.graph.operators:
            operator.inputs = [index if index is None else same.get(index, index) for index in operator.inputs]
            source, output = operator.inputs[0] if operator.inputs else None, operator.outputs[0]
            if operator.builtin != "QUANTIZE" or source is None or self.graph.tensors[source].quantization is None:
                continue
            grid = self.grid(output)
            origin = next(
                (one for one in (source, before.get(source)) if one is not None and self.grid(one) == grid), None
            )
            if origin is not None and output not in self.graph.outputs:
                same[output] = origin
            elif self.grid(source).signed == grid.signed:
                before[output] = source
