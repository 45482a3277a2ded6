"""Probe the installed onnxruntime: the newest operator set and IR version, the kernels by dtype, and its quirks.

Nothing is concluded from its version. Each question is answered by a trial: a session of a graph with one node, which
takes a tenth of a millisecond. The answers are kept for the life of the process.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.execution.onnxruntime_child import run_in_child
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import Graph, GraphNode, Model, ValueInfo
from onnx_compat.model.initializer import Constant
from onnx_compat.model.types import TensorType
from onnx_compat.model.versions import NEWEST, NEWEST_IR
from onnx_compat.model.write import to_proto
from onnx_compat.onnx_shim.behaviours import BEHAVIOURS, Example
from onnx_compat.onnx_shim.emission import write_values
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.graph_builder import Scope, Value
from onnx_compat.onnx_shim.operator_sets import OLDEST, OperatorOffer
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.shim.forks import keep_after_fork

__all__ = ["RuntimeOffer", "can_share", "newest_ir_version", "open_session", "runtime_offer"]

#: The optional module `onnxruntime` has no types.
Session = Any

Dtypes = Sequence[Optional[DType]]

#: The beginning of a behaviour that is about a rounding by casts.
_ROUNDING = "Cast to "
#: Optimisers of onnxruntime that change numbers: it quantises the float weights of layers between quantised values.
_DISABLED = ["WeightBiasQuantization"]
#: Operators that every release of onnx gives a new version: an operator set without kernels for them is of no use.
_COMMON = ("Identity", "Reshape", "Transpose", "Shape", "Cast")


def open_session(
    content: bytes,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    is_trial: bool = False,
    optimised: bool = True,
    shared: Optional[Mapping[str, np.ndarray]] = None,
) -> Session:
    """Return an InferenceSession that logs nothing. Exceptions of onnxruntime propagate.

    - content: a serialised ModelProto.
    - providers: the names of execution providers. RuntimeError is raised for one that the session cannot use:
      onnxruntime itself would use the CPU.
    - is_trial: whether onnxruntime neither optimises the model nor starts threads.
    - optimised: whether onnxruntime optimises the model if `is_trial` is False.
    - shared: name -> array of the initializers that the model refers to as external data without a file. The arrays
      must outlive the session. None: the model holds every initializer.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if is_trial or not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if is_trial:
        options.intra_op_num_threads = options.inter_op_num_threads = 1
    if shared:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in shared.values()]
        options.add_external_initializers(list(shared), values)
    session = onnxruntime.InferenceSession(
        content, options, providers=list(providers), enable_fallback=0, disabled_optimizers=_DISABLED
    )
    keep_after_fork(session)
    for provider in providers:
        if provider not in session.get_providers():
            raise RuntimeError("onnxruntime cannot use %s on this machine" % provider)
    return session


def can_share() -> bool:
    """Whether a session of the installed onnxruntime takes initializers as arrays."""
    import onnxruntime

    return hasattr(onnxruntime.SessionOptions, "add_external_initializers")


def _can_load(node: GraphNode, inputs: Dtypes, outputs: Dtypes, opsets: Mapping[str, int]) -> bool:
    """Whether onnxruntime opens a session of one node, whose values have these dtypes and any shape.

    - inputs, outputs: a dtype for each name of the node. None: the value is omitted, or its type is not declared.
    - opsets: domain -> version.
    """
    ports = [
        [ValueInfo(name, None if dtype is None else TensorType(dtype)) for name, dtype in zip(names, dtypes) if name]
        for names, dtypes in ((node.inputs, inputs), (node.outputs, outputs))
    ]
    proto = to_proto(Model(Graph("trial", ports[0], ports[1], [node]), opsets, 0))
    proto.ir_version = min(proto.ir_version, newest_ir_version())
    try:
        open_session(proto.SerializeToString(), is_trial=True)
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return True


class RuntimeOffer(OperatorOffer):
    """The operators of an operator set for which the installed onnxruntime has a kernel."""

    origin_text = " in the installed onnxruntime"

    def __init__(self, opset: int) -> None:
        super().__init__(opset, newest_ir_version=newest_ir_version())
        # Without a lock, which a forked process could inherit locked: two threads may ask the same question.
        self._kernels: Dict[Any, bool] = {}
        self._behaviours: Dict[Tuple[str, Optional[str]], bool] = {}

    def has(
        self,
        operator: str,
        inputs: Dtypes,
        outputs: Dtypes,
        attributes: Optional[Mapping[str, Any]] = None,
        domain: str = "",
    ) -> bool:
        """Whether the operator set has an operator for these dtypes, and onnxruntime a kernel for it.

        - inputs, outputs: a dtype for each value. None is an omitted input, and an output of any dtype.
        - attributes: name -> value; None: the call has no attributes.

        Without a trial, a kernel is assumed for an operator with graphs as attributes.
        """
        if not super().has(operator, inputs, outputs, attributes, domain):
            return False
        attributes = attributes or {}
        if self._is_fatal(operator, inputs, domain):
            return False
        if any(isinstance(value, (Scope, Graph)) for value in attributes.values()):
            return True  # If, Loop and Scan, which take every dtype
        key = (domain, operator, _names(inputs), _names(outputs), _summary(attributes))
        if key not in self._kernels:
            self._kernels[key] = self._try(operator, inputs, outputs, attributes, domain)
        return self._kernels[key]

    def _is_fatal(self, operator: str, inputs: Dtypes, domain: str) -> bool:
        """Whether a trial of an operator may end the process: a function of float16, if onnxruntime fails at these."""
        signature = self.signature(operator, domain)
        is_float16_function = signature is not None and signature.is_function and DType.of("float16") in inputs
        return is_float16_function and not self.is_reliable("functions of float16")

    def _try(self, operator: str, inputs: Dtypes, outputs: Dtypes, attributes: Mapping[str, Any], domain: str) -> bool:
        names = ["i%d" % k if dtype is not None else "" for k, dtype in enumerate(inputs)]
        results = ["o%d" % k for k in range(len(outputs))]
        node = GraphNode(operator, names, results, attributes, domain, self.opsets[domain], "trial")
        return _can_load(node, inputs, outputs, {"": self.opset, domain: self.opsets[domain]})

    def is_reliable(self, behaviour: str, dtype: Optional[DType] = None) -> bool:
        """Whether onnxruntime gives the specified results for the small examples of a behaviour.

        - behaviour: a key of `BEHAVIOURS`, or "Cast to " and the name of a carried dtype, whose rounding is tried.
        - dtype: the dtype of the floats in the examples; None: the dtypes that the examples have.

        True also if `dtype` is no float, if the behaviour has no example, and if onnxruntime lacks the operator. `has`
        tells whether it lacks the operator.
        """
        if dtype is not None and dtype.kind != "f":
            return True
        key = (behaviour, None if dtype is None else dtype.name)
        if key not in self._behaviours:
            self._behaviours[key] = self._is_shown(behaviour, dtype)
        return self._behaviours[key]

    def _is_shown(self, behaviour: str, dtype: Optional[DType]) -> bool:
        untried = OnnxEmitter(OperatorOffer(self.opset, newest_ir_version=self.newest_ir_version))
        if behaviour.startswith(_ROUNDING):
            return _keeps_casts(DType.of(behaviour[len(_ROUNDING) :]), untried)
        for example in BEHAVIOURS.get(behaviour, ()):
            emitter = untried if example.safe_from else OnnxEmitter(self)
            if not _shows(_with_dtype(example, dtype), emitter, is_fatal=self.opset < example.safe_from):
                return False
        return True


def _keeps_casts(dtype: DType, emitter: OnnxEmitter) -> bool:
    """Whether onnxruntime rounds numbers as `DType.round` does when a model casts them to a carried dtype and back.

    The optimiser of onnxruntime may remove both casts. Raises UnsupportedError if the emitter has no such casts.
    """
    carrier = DType.of(dtype.numpy)
    numbers = {"f": [1.2004716, 65500, -65500, -1e-7], "i": [1, 77, -77], "u": [1, 77, 110]}
    array = np.asarray(numbers[dtype.kind], dtype.numpy)
    x = Value(carrier, array.shape)
    back = emitter.convert(emitter.narrow(x, dtype), carrier)
    content = write_values(emitter, [x], [back], ["x"], ["y"]).SerializeToString()
    try:
        (result,) = open_session(content).run(["y"], {"x": array})
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return _agree(result, dtype.round(array, saturate=False))


def _with_dtype(example: Example, dtype: Optional[DType]) -> Example:
    """Return an example whose floats have another dtype; None: the example itself."""
    if dtype is None:
        return example
    inputs, expected = (
        [array.astype(dtype.numpy) if array.dtype.kind == "f" else array for array in arrays]
        for arrays in (example.inputs, [example.expected])
    )
    return example._replace(inputs=inputs, expected=expected[0])


def _shows(example: Example, emitter: OnnxEmitter, is_fatal: bool) -> bool:
    """Whether onnxruntime gives the expected result of an example. An error counts as another result.

    True if the offer of the emitter lacks the operator, or has no form for the example. `is_fatal`: whether the example
    runs in a child process.
    """
    arrays = [(array, DType.of(array)) for array in example.inputs]
    values = [
        emitter.constant(array, kind)
        if position >= example.fed and (kind.kind == "i" or not array.ndim)
        else Value(kind, array.shape)
        for position, (array, kind) in enumerate(arrays)
    ]
    types = [(DType.of(example.expected), example.expected.shape), (DType.of("int64"), ())][: example.results]
    results = emitter.attempts(example.operator, values, types, **example.attributes)
    if results is None:
        return True
    fed = {"i%d" % k: array for k, (array, _) in enumerate(arrays) if values[k].array is None}
    inputs = [value for value in values if value.array is None]
    proto = write_values(emitter, inputs, [results[0]], list(fed), ["o"])
    try:
        result = _run_trial(proto.SerializeToString(), fed, is_fatal)
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return _agree(result, example.expected)


def _run_trial(content: bytes, fed: Dict[str, np.ndarray], is_fatal: bool) -> Any:
    """Return the only output of a model that onnxruntime runs; `is_fatal`: in a child process.

    Errors of onnxruntime propagate. In a child process they become UnsupportedError, as does a process that ends without
    a result or cannot be started.
    """
    if not is_fatal:
        return open_session(content, is_trial=True).run(["o"], fed)[0]
    outcome = run_in_child(content, fed, optimised=False)
    if outcome is None:
        raise UnsupportedError("no child process can be started")
    return outcome.outputs[0]


def _agree(result: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two arrays have equal shapes and elements, with NaN equal to NaN.

    `np.array_equal` takes no NaN as equal before numpy 1.19.
    """
    if np.shape(result) != expected.shape:
        return False
    is_nan = (result != result) & (expected != expected)  # noqa: PLR0124 (NaN, in arrays of texts too)
    return bool(np.all((result == expected) | is_nan))


def _names(dtypes: Dtypes) -> Tuple[Optional[str], ...]:
    return tuple(None if dtype is None else dtype.name for dtype in dtypes)


def _summary(attributes: Mapping[str, Any]) -> Tuple[Any, ...]:
    """Return the attributes as sorted pairs (name, text), as far as a kernel may depend on them.

    The text has only the length of a list, and only the dtype of a tensor.
    """
    return tuple(sorted((name, _essence(value)) for name, value in attributes.items()))


def _essence(value: Any) -> str:
    if isinstance(value, Constant):
        return value.dtype.name
    return "list of %d" % len(value) if isinstance(value, (list, tuple)) else repr(value)


_OFFERS: Dict[Optional[int], RuntimeOffer] = {}


#: The result of `newest_ir_version`, once it is known.
_IR_VERSIONS: List[int] = []


def newest_ir_version() -> int:
    """Return the newest IR version that this library knows and the installed onnxruntime reads.

    A trial at the opset `OLDEST` finds it. Raises RuntimeError if no trial succeeds, also without onnxruntime.
    """
    if not _IR_VERSIONS:
        _IR_VERSIONS.append(_try_ir_versions())
    return _IR_VERSIONS[0]


def _try_ir_versions() -> int:
    float32 = DType.of("float32")
    node = GraphNode("Identity", ["x"], ["y"], {}, "", OLDEST, "trial")
    ports = [[ValueInfo(name, TensorType(float32, (1,)))] for name in "xy"]
    proto = to_proto(Model(Graph("trial", ports[0], ports[1], [node]), {"": OLDEST}, 0))
    for version in range(NEWEST_IR, proto.ir_version - 1, -1):
        proto.ir_version = version
        try:
            open_session(proto.SerializeToString(), is_trial=True)
        except Exception:  # noqa: BLE001, S112 (its errors have no common base; an older version may work)
            continue
        return version
    raise RuntimeError("onnxruntime reads no model of IR version %d or later" % proto.ir_version)


def runtime_offer(opset: Optional[int] = None) -> RuntimeOffer:
    """Return what the installed onnxruntime offers at an operator set. None: the newest that it can use.

    - Raises ImportError without onnxruntime.
    - Raises RuntimeError if onnxruntime runs no model of a known operator set or IR version.
    - Raises UnsupportedError for an operator set below `OLDEST`, or one that the installed onnx does not know.
    """
    if opset not in _OFFERS:
        import onnxruntime  # noqa: F401 (without it, each trial would fail)

        _OFFERS[opset] = _newest_offer() if opset is None else RuntimeOffer(opset)
    return _OFFERS[opset]


def _newest_offer() -> RuntimeOffer:
    for opset in range(min(newest_opset(), NEWEST[""]), OLDEST - 1, -1):
        offer = RuntimeOffer(opset)
        if all(_has_common(offer, operator) for operator in _COMMON):
            return offer
    raise RuntimeError("onnxruntime runs no model of opset %d or later" % OLDEST)


def _has_common(offer: RuntimeOffer, operator: str) -> bool:
    float32, int64 = DType.of("float32"), DType.of("int64")
    inputs = [float32, int64] if operator == "Reshape" else [float32]
    output = int64 if operator in ("Shape", "Cast") else float32
    return offer.has(operator, inputs, [output], {"to": int64.onnx} if operator == "Cast" else {})
