"""Validate a .tflite file of any origin before the interpreter reads it: kernels check their operands incompletely.

The reader has checked offsets, and that indices are in range. This module checks what the interpreter relies on:

- names are UTF-8;
- an operator has the inputs that its kernel reads, and omits optional inputs only;
- an operator reads only inputs, constants, variables, and tensors that an earlier operator wrote;
- an operator writes no constant and no input;
- an operator has an output, unless its op may have none;
- each output of a subgraph is an input, a constant, a variable, or written by an operator;
- a constant permutation is one;
- constants have the size of their tensor;
- the options that a kernel divides by are not 0, and window sizes are positive;
- subgraphs that operators call exist, and do not call themselves.
"""

from typing import Any, Dict, FrozenSet, Iterator, List, Sequence, Set

from onnx_compat.shim import InvalidModelError
from onnx_compat_tflite import flatbuffer as fb

__all__ = ["validate_file"]

_AGAIN = "it is damaged, or another program wrote it wrongly: convert the model again"

#: The number of inputs that a kernel reads without a check -> the operators. Any other operator reads one.
_INPUT_COUNTS = {
    0: "CALL CALL_ONCE CUSTOM DELEGATE HASHTABLE IF VAR_HANDLE WHILE STABLEHLO_IOTA STABLEHLO_CUSTOM_CALL"
    " STABLEHLO_COMPOSITE STABLEHLO_WHILE STABLEHLO_CASE",
    2: "ADD SUB MUL DIV MAXIMUM MINIMUM POW SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD LESS LESS_EQUAL GREATER GREATER_EQUAL"
    " EQUAL NOT_EQUAL LOGICAL_OR LOGICAL_AND CONV_2D DEPTHWISE_CONV_2D CONV_3D FULLY_CONNECTED PRELU GATHER GATHER_ND"
    " TRANSPOSE MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL PAD MIRROR_PAD TILE EXPAND_DIMS"
    " RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR TOPK_V2 SPLIT ARG_MAX ARG_MIN FILL CUMSUM BROADCAST_TO BROADCAST_ARGS"
    " REVERSE_V2 REVERSE_SEQUENCE MATRIX_SET_DIAG BATCH_MATMUL RFFT2D EMBEDDING_LOOKUP ASSIGN_VARIABLE MULTINOMIAL ATAN2"
    " BITWISE_XOR RIGHT_SHIFT SEGMENT_SUM LSH_PROJECTION STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY"
    " STABLEHLO_MAXIMUM STABLEHLO_AND STABLEHLO_MINIMUM STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER"
    " STABLEHLO_SUBTRACT STABLEHLO_COMPARE STABLEHLO_CONVOLUTION STABLEHLO_DOT_GENERAL STABLEHLO_DYNAMIC_UPDATE_SLICE"
    " STABLEHLO_GATHER STABLEHLO_PAD STABLEHLO_SHIFT_LEFT",
    3: "BATCH_TO_SPACE_ND CONV_3D_TRANSPOSE DYNAMIC_UPDATE_SLICE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_LOOKUP PADV2"
    " RANGE SCATTER_ND SELECT SELECT_V2 SLICE SPACE_TO_BATCH_ND SPLIT_V TRANSPOSE_CONV UNSORTED_SEGMENT_MAX DILATE"
    " UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM STABLEHLO_CLAMP STABLEHLO_SCATTER STABLEHLO_SELECT",
    4: "ONE_HOT SPARSE_TO_DENSE STRIDED_SLICE SVDF",
    5: "EMBEDDING_LOOKUP_SPARSE LSTM NON_MAX_SUPPRESSION_V4 RNN UNIDIRECTIONAL_SEQUENCE_RNN",
    6: "NON_MAX_SUPPRESSION_V5",
    12: "BIDIRECTIONAL_SEQUENCE_RNN",
    20: "UNIDIRECTIONAL_SEQUENCE_LSTM",
    48: "BIDIRECTIONAL_SEQUENCE_LSTM",
}
_REQUIRED = {name: count for count, names in _INPUT_COUNTS.items() for name in names.split()}

_LSTM = frozenset((1, 5, 9, 10, 11, 12, 16, 17, 20, 21, 22, 23))
#: Operator -> the positions of the inputs that it may omit.
_OPTIONAL: Dict[str, FrozenSet[int]] = {
    "CONV_2D": frozenset((2,)),
    "DEPTHWISE_CONV_2D": frozenset((2,)),
    "CONV_3D": frozenset((2,)),
    "FULLY_CONNECTED": frozenset((2,)),
    "SVDF": frozenset((3,)),
    "TRANSPOSE_CONV": frozenset((3,)),
    "CONV_3D_TRANSPOSE": frozenset((3,)),
    "LSTM": _LSTM,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _LSTM,
    "BIDIRECTIONAL_SEQUENCE_RNN": frozenset((9, 10, 11)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": frozenset(
        (1, 5, 9, 10, 11, 12, 16, 17, 18, 22, 26, 27, 28, 29, 33, 34, *range(39, 48))
    ),
    "CUSTOM": frozenset(range(1 << 10)),
}
#: Operators without an output, or with as many as a subgraph has.
_WITHOUT_OUTPUT = frozenset(
    "ASSIGN_VARIABLE CALL CALL_ONCE CUSTOM DELEGATE HASHTABLE_IMPORT IF WHILE STABLEHLO_WHILE STABLEHLO_CASE"
    " STABLEHLO_CUSTOM_CALL STABLEHLO_COMPOSITE".split()
)
#: Options that a kernel divides by, or that are sizes of windows and steps.
_POSITIVE = frozenset(
    "stride_w stride_h stride_d dilation_w_factor dilation_h_factor dilation_d_factor filter_width filter_height"
    " block_size depth_multiplier num_splits num_columns_per_channel".split()
)


def validate_file(model: fb.ModelSpec) -> fb.ModelSpec:
    """Return `model` itself if the interpreter can be given its file. `model` must come from `fb.read`.

    Raises InvalidModelError for a defect that the module docstring lists. The message says where the defect is: for
    example, the operator and the subgraph.
    """
    _check_names(model)
    for number, graph in enumerate(model.subgraphs):
        _check_subgraph(graph, "subgraph %d" % number)
    _check_calls(model)
    return model


def _require(holds: bool, where: str, defect: str, *values: object) -> None:
    """Raise InvalidModelError with the texts `where` and `defect % values` unless `holds` is true."""
    if not holds:
        raise InvalidModelError("the TFLite model is not valid: %s: %s" % (where, defect % values), hint=_AGAIN)


def _check_names(model: fb.ModelSpec) -> None:
    """Raise InvalidModelError for a text that is not UTF-8: the interpreter's Python binding cannot return it."""
    texts = [model.description, *model.metadata]
    for signature in model.signatures:
        texts += [signature.key, *signature.inputs, *signature.outputs]
    for graph in model.subgraphs:
        texts += [graph.name, *(tensor.name for tensor in graph.tensors)]
        texts += [operator.custom_code for operator in graph.operators if operator.custom_code]
    for text in texts:  # the reader decodes other bytes to lone surrogates
        _require(text.isascii() or _is_encodable(text), "a name", "%a is not UTF-8", text)


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_subgraph(graph: fb.SubGraph, where: str) -> None:
    constants = {index for index, tensor in enumerate(graph.tensors) if tensor.buffer is not None}
    readable = constants | set(graph.inputs)
    readable.update(index for index, tensor in enumerate(graph.tensors) if tensor.is_variable)
    for tensor in graph.tensors:
        _check_constant(tensor, where)
    for number, operator in enumerate(graph.operators):
        operator_text = "operator %d (%s) of %s" % (number, operator.builtin, where)
        _check_operands(operator, operator_text)
        for index in operator.inputs:
            _require(
                index is None or index in readable, operator_text, "it reads tensor %s before anything writes it", index
            )
        for index in operator.outputs:
            _require(index not in constants, operator_text, "it writes the constant %d", index)
            _require(index not in graph.inputs, operator_text, "it writes the input %d", index)
        _check_options(operator, operator_text)
        if operator.builtin == "TRANSPOSE":
            _check_permutation(graph, operator, operator_text)
        readable.update(operator.outputs)
    for index in graph.outputs:
        _require(index in readable, where, "nothing writes its output %d", index)


def _check_constant(tensor: fb.TensorSpec, where: str) -> None:
    """Raise InvalidModelError if a constant has another number of bytes than its dtype and shape need.

    An empty buffer, a sparse tensor and a dtype without a fixed size are not checked.
    """
    stored, size = fb.storage(tensor.dtype, tensor.shape)
    if tensor.buffer is None or stored is None or tensor.sparsity is not None or not tensor.buffer.size:
        return
    _require(
        tensor.buffer.nbytes == size, where, "the constant '%s' has %d bytes, and its type and shape need %d",
        tensor.name, tensor.buffer.nbytes, size,
    )  # fmt: skip


def _check_operands(operator: fb.OperatorSpec, where: str) -> None:
    """Raise InvalidModelError if an input that the kernel reads is missing, or an output that the op must have."""
    optional = _OPTIONAL.get(operator.builtin, frozenset())
    required = _REQUIRED.get(operator.builtin, 1)
    _require(len(operator.inputs) >= required, where, "it has %d inputs of %d", len(operator.inputs), required)
    for position, index in enumerate(operator.inputs):
        _require(index is not None or position in optional, where, "it has no input %d", position)
    has_output = bool(operator.outputs) or operator.builtin in _WITHOUT_OUTPUT
    _require(has_output, where, "it has no output")


def _check_options(operator: fb.OperatorSpec, where: str) -> None:
    for name in _POSITIVE & operator.options.keys():
        values = operator.options[name]
        for value in values if isinstance(values, (list, tuple)) else [values]:
            _require(value is None or value > 0, where, "its option %s is %s", name, value)


def _check_permutation(graph: fb.SubGraph, operator: fb.OperatorSpec, where: str) -> None:
    """Raise InvalidModelError if the constant int32 operand of a TRANSPOSE is no permutation of the axes.

    The kernel would write outside its result. An operand that is no constant, or of another dtype, is not checked.
    """
    tensor, order = (graph.tensors[index or 0] for index in operator.inputs[:2])
    if order.buffer is not None and order.dtype == "int32":
        axes = [int(axis) % max(len(tensor.shape), 1) for axis in order.buffer.reshape(-1)]
        _require(sorted(axes) == list(range(len(tensor.shape))), where, "%s is no permutation of its axes", axes)


def _check_calls(model: fb.ModelSpec) -> None:
    """Raise InvalidModelError if a called subgraph does not exist, or calls itself, also through other subgraphs."""
    calls: List[Set[int]] = []
    for number, graph in enumerate(model.subgraphs):
        called = set(_called_subgraphs(graph))
        beyond = [callee for callee in called if not 0 <= callee < len(model.subgraphs)]
        _require(not beyond, "subgraph %d" % number, "it calls subgraphs %s of %d", beyond, len(model.subgraphs))
        calls.append(called)
    waiting = set(range(len(calls)))
    while waiting:
        free = {number for number in waiting if not calls[number] & waiting}
        _require(bool(free), "the subgraphs %s" % (free or _find_cycle(calls, waiting)), "they call themselves")
        waiting -= free


def _find_cycle(calls: Sequence[Set[int]], waiting: Set[int]) -> List[int]:
    """Return the subgraphs of a cycle of calls, in ascending order.

    `calls`: for each subgraph, the subgraphs that it calls. Each subgraph of `waiting` must call one of `waiting`.
    """
    path = [min(waiting)]
    while True:
        callee = min(calls[path[-1]] & waiting)
        if callee in path:
            return sorted(path[path.index(callee) :])
        path.append(callee)


def _called_subgraphs(graph: fb.SubGraph) -> Iterator[int]:
    for operator in graph.operators:
        for name, value in operator.options.items():
            if "subgraph" in name:
                numbers: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
                yield from (number for number in numbers if number is not None)
