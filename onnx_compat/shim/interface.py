"""The interface of a shim, which adapts a framework to the core.

A shim has

- a probe: whether the framework works on this machine, its version, its features; `devices`: its devices;
- an emitter: a method for each primitive, over the framework's tensors;
- `compile`: make a recorded program runnable;
- exporters and a loader, if the framework has file formats.
"""

import abc
import os
import tempfile
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)  # fmt: skip

import numpy as np

from onnx_compat.errors import ConversionError, ShimError, UnsupportedError
from onnx_compat.ir import Node, Region, Spec, Target, dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim import devices, emission
from onnx_compat.shim.compiled import Compiled
from onnx_compat.shim.description import Description, OpenedFile, Preview
from onnx_compat.shim.gradient import composed_gradient
from onnx_compat.shim.natives import Native, declared_natives
from onnx_compat.shim.schemes import Quantization, Scheme

if TYPE_CHECKING:
    from onnx_compat.passes import Pass

__all__ = ["Compiled", "Emitter", "Port", "Probe", "Program", "Quantization", "Scheme", "Shim"]

Handle = Any  # a tensor of a framework: the core knows no framework


class Probe(NamedTuple):
    """The result of the check whether the framework works on this machine.

    available: whether the framework works.
    reason: why the framework is available, or why it is not.
    framework: the name of the framework: "tensorflow".
    version: the version of the framework; "" if the framework could not be imported.
    features: name of a feature of the framework -> its value, such as {"back_end": "jax"}.
    """

    available: bool
    reason: str
    framework: str = ""
    version: str = ""
    features: Mapping[str, Any] = {}


class Port(NamedTuple):
    """An input or an output of a program.

    A size is an int, or it is symbolic: None, or a name. Equal names are equal sizes.

    `quantization`: (scale, zero point) for a port of a file whose integers stand for real numbers; None for other
    ports.
    """

    name: str
    dtype: DType
    shape: Tuple[Union[int, str, None], ...]
    quantization: Optional[Tuple[float, int]] = None

    @property
    def sizes(self) -> Tuple[Optional[int], ...]:
        """The sizes, with None for every symbolic size."""
        return tuple(size if isinstance(size, int) else None for size in self.shape)


class Program(NamedTuple):
    """A recorded model for a shim to compile. `emission.emit(region, emitter, handles)` emits it."""

    name: str
    inputs: Tuple[Port, ...]
    outputs: Tuple[Port, ...]
    region: Region

    @property
    def target(self) -> Optional[Target]:
        """The target that the emitter of the program must have. None: the program fits every target."""
        return self.region.target

    def __str__(self) -> str:
        from onnx_compat.ir.printer import format_program

        return format_program(self)


class Emitter:
    """The primitives over a framework's tensors ("handles"), by the names in `primitives.PRIMITIVES`.

    By default each primitive is a method of its name, and `self.node` is the node that is being emitted. An emitter
    with another structure overrides `at`, `node`, `has`, `apply` and `natives`, as the TFLite emitter does.

    Arguments:
        Tensors and sizes come first, by position: a tensor as a handle, a list of tensors as a list, and sizes as
        `emission.Sizes`. An omitted tensor is None. Every other argument comes by name. Axes are physical and never
        None. The node has the types of arguments and results. `reference.Reference` implements each primitive.
    Result:
        A handle, or a tuple of handles if the primitive has several results. So a handle itself must not be a tuple.

    Raises:
        UnsupportedError for a case that the framework cannot express. The node then runs in the fallback, as it does if
        the emitter lacks the primitive.

    `compile` walks over a program with `emission.emit`. Besides the primitives, an emitter has `constant`, `dim`,
    `element` and `stack`. A symbolic emitter also has `placeholder` (for `support`), a concrete emitter `shape` and
    `fetch`.
    """

    #: 'channels_last' or 'channels_first': the layout of the images of convolutions and pools.
    layout = "channels_last"
    #: The layout of their filters: O output channels, I input channels, HW all spatial axes.
    filter_layout = "HWIO"
    #: The dtype in which sizes are computed at run time.
    index_dtype = dtypes.int64
    #: Whether an operator between DequantizeLinear and QuantizeLinear becomes an integer kernel. Then operators on
    #: quantized numbers are recorded as DequantizeLinear, operator, QuantizeLinear.
    integers = False
    #: Whether handles hold values. Then sizes are ints, and to emit a node is to execute it.
    concrete = False

    _node: Node

    # -- the primitives --------------------------------------------------------------------------------------------
    def at(self, node: Node) -> "Emitter":
        """Return the emitter to use for a node: by default this emitter, which stores the node as `self.node`.

        The walk calls this before it emits a node, and again for the enclosing node after the body of a loop or branch.
        """
        self._node = node
        return self

    @property
    def node(self) -> Node:
        """The node that is being emitted. Raises AttributeError before the first node."""
        return self._node

    def has(self, primitive: str) -> bool:
        """Whether the emitter implements a primitive or a native.

        By default: whether the emitter has an attribute of this name.
        """
        return hasattr(self, primitive)

    def apply(self, primitive: str, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Emit a primitive or a native, for the node or a size that the node reads. Return its handle or handles."""
        return getattr(self, primitive)(*args, **params)

    def natives(self) -> Dict[Tuple[str, str], Native]:
        """Return a dict (domain, operator) -> `Native` of the natives that the installed framework can run."""
        return declared_natives(self)

    @property
    def target(self) -> Target:
        """The target of this emitter. It can emit only programs that are recorded for this target."""
        return Target(self.layout, self.filter_layout, self.integers)

    @property
    def out(self) -> Spec:
        """The physical type of the (first) result of the node that is being emitted."""
        return self.node.outputs[0].spec

    # -- methods of every emitter besides the primitives -----------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Handle:
        """Return a handle of a known tensor. `array` is its carrier array, in physical order."""
        raise NotImplementedError

    def dim(self, handle: Handle, axis: int) -> Handle:
        """Return the length of an axis: an int if it is known, else a scalar handle of `index_dtype`."""
        raise NotImplementedError

    def element(self, handle: Handle, index: Optional[int]) -> Handle:
        """Return the element at position `index` of an integer vector. With an `index` of None, read a scalar tensor.

        A concrete emitter returns an int. Any other emitter returns an int if it knows the element, else a scalar
        handle. The handle has the dtype `index_dtype`, or the vector's wider dtype if the element may exceed
        `index_dtype` (see `promote`).
        """
        raise NotImplementedError

    def stack(self, scalars: Sequence[Handle]) -> Handle:
        """Return the vector of these scalar handles. The handles and the vector have the dtype `index_dtype`."""
        raise NotImplementedError

    def promote(self, a: Handle, b: Handle) -> Tuple[Handle, Handle]:
        """Convert two scalar sizes to a common dtype, before arithmetic on them, and return both.

        By default they stay unchanged. Override the method if `element` returns sizes of several dtypes.
        """
        return a, b

    def placeholder(self, spec: Spec) -> Handle:
        """Return a handle of an unknown value of the type `spec`. Sizes that are not ints are unknown.

        The handle is for trials in the context of `Shim.scratch`.

        Raises UnsupportedError if the framework cannot hold the type.
        """
        raise NotImplementedError

    def finish(self, handle: Handle, dtype: DType) -> Handle:
        """Round a result of a primitive to the values of its dtype, after arithmetic on a carrier. Return a handle.

        The walk calls this method for every result. If the dtype is native, or if the primitive only moves elements,
        the handle itself is returned. Override the method if the framework has the carried dtypes.
        """
        from onnx_compat.primitives.carried import MOVES, to_values

        if dtype.native or self.node.primitive in MOVES:
            return handle
        rank = next(ref.spec.rank for ref in self.node.outputs if ref.spec.dtype == dtype)
        (rounded,) = emission.emit(to_values(dtype, rank), self, [handle])
        return rounded

    @contextmanager
    def device_context(self) -> Iterator[None]:
        """Return a context in which a concrete emitter runs a model on its device. By default it does nothing."""
        yield

    def name_value(self, handle: Handle, name: str) -> None:
        """Name the tensor of `handle` after `name`, the name of the value in the model. By default do nothing."""

    # -- a primitive that the core implements -----------------------------------------------------------------------
    def gradient(
        self,
        *xs: Handle,
        bodies: Sequence[Callable[..., Sequence[Handle]]],
        captures: Sequence[Handle],
        refusal: str,
    ) -> Tuple[Handle, ...]:
        """Return a tuple with the derivative for each of `xs`, by the core's rules: see `composed_gradient`.

        Raises UnsupportedError with the reason `refusal` if `refusal` is not "". Override the method if the framework
        differentiates.
        """
        return composed_gradient(*xs, bodies=bodies, captures=captures, refusal=refusal)

    # -- concrete emitters only -------------------------------------------------------------------------------------
    def shape(self, handle: Handle) -> Tuple[int, ...]:
        """Return the shape of the tensor that a handle of a concrete emitter holds."""
        raise NotImplementedError

    def fetch(self, handle: Handle) -> np.ndarray:
        """Return the tensor that a handle of a concrete emitter holds, as a numpy array."""
        raise NotImplementedError


class Shim(abc.ABC):
    """The adapter of a framework. Each distribution has one instance, which its entry point names."""

    name: str = ""
    #: Modules whose import shows that the user works with this framework, e.g. ("tensorflow",).
    modules: Tuple[str, ...] = ()
    #: Format name -> (suffix of the path, "" for a folder; description), e.g. {"tflite": (".tflite", "TF Lite file")}.
    formats: Mapping[str, Tuple[str, str]] = {}
    #: Format name -> the quantization schemes for its files.
    schemes: Mapping[str, Tuple[Scheme, ...]] = {}
    #: The step that starts threads of the framework which a forked process lacks, and waits for: "probe", "compile" or
    #: "run". None: a forked process can prepare and run models.
    threads_start: Optional[str] = None

    @property
    def passes(self) -> "Sequence[Pass]":
        """The distinct passes of this shim in the order in which they run, without the passes of the core."""
        return ()

    @abc.abstractmethod
    def probe(self) -> Probe:
        """Import the framework and determine its version and features. Never raises."""

    @abc.abstractmethod
    def emitter(self) -> Emitter:
        """Return an emitter as `compile` uses it. The trace reads its layouts and natives."""

    @abc.abstractmethod
    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Compile the program for `device`: an entry of `devices()`, or None for the framework's choice.

        Raises UnsupportedError, which names the node, if the framework cannot express a node.
        """

    def executor(self, device: Optional[str] = None) -> Optional[Emitter]:
        """Return a new concrete emitter that executes each node at once, for models that cannot be compiled.

        None, the default: the framework cannot execute nodes one by one, and such a model is cut into parts instead.
        Each run uses a new emitter. `device`: as for `compile`.
        """
        return None

    def devices(self) -> Sequence[str]:
        """Return the names of the framework's devices on this machine: "cpu:0", "cpu:1", "gpu:0". By default ("cpu",).

        Logical devices are included. If a name has no number, it is the only device of its kind.
        """
        return ("cpu",)

    def resolve_device(self, name: Optional[str]) -> Optional[str]:
        """Return the entry of `devices()` that a name means, such as "CUDA:1" -> "gpu:1". Return None for None.

        A name without a number has the number 0. Raises `ShimError`, which lists the devices, if no entry has this
        meaning. Do not override this method.
        """
        return None if name is None else devices.resolve(name, self.devices(), self.name)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        """Return a context that yields an emitter for trials, by default `emitter()`.

        After the context, the framework has no state of the trials. With a concrete emitter, the caller must not
        execute nodes.
        """
        yield self.emitter()

    def export(self, program: Program, path: str, form: str) -> None:
        """Write the program to `path` in the format `form`. By default raises UnsupportedError: no files are written.

        `path` does not exist yet. The program is not used afterwards: its weights may be freed.
        """
        raise UnsupportedError("the shim %s writes no file format" % self.name)

    def preview(self, program: Program, form: str) -> Preview:
        """Build what `export` would write, without writing it, and return its ops. Raise the errors of `export`.

        Both methods must build with the same code. By default, `export` writes to a temporary folder, and the ops are
        not listed. The program is not used afterwards.
        """
        with tempfile.TemporaryDirectory(prefix="onnx-compat-") as folder:
            self.export(program, os.path.join(folder, "preview" + self.formats[form][0]), form)
        return Preview()

    def portable(self) -> "Shim":
        """Return a copy of the shim whose files run on the oldest supported runtime and on all later runtimes.

        By default raises ConversionError: the shim cannot write such files.
        """
        raise ConversionError(
            "the files of the shim %s are for one version of the framework" % self.name,
            hint="leave `portable` (--portable) out; .tflite files have it",
            shim=self.name,
        )

    def quantize(self, path: str, form: str, how: Quantization) -> None:
        """Quantise a file that `export` has written, in place. Raises UnsupportedError by default."""
        raise UnsupportedError("the shim %s quantises no file" % self.name)

    def needs_run(self, path: str, form: str) -> bool:
        """Whether a file of `export` may have defects that only a run shows, and a run is cheap. By default False."""
        return False

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        """Load a file of `export`. Return (runnable program, inputs, outputs). Raises UnsupportedError by default."""
        raise UnsupportedError("the shim %s reads no file format" % self.name)

    def load_signature(
        self, path: str, form: str, signature: str
    ) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        """Load the model `signature` of a file of several models (see `join`). Raises UnsupportedError by default."""
        raise UnsupportedError("a file of the format '%s' holds one model" % form, hint="leave the signature out")

    def join(self, parts: Mapping[str, str], path: str, form: str) -> None:
        """Join files into the new file `path` of the same format, `form`. `parts`: signature name -> path of its file.

        Raises UnsupportedError by default: a file holds one model.
        """
        raise UnsupportedError("a file of the format '%s' holds one model" % form, hint="keep the files apart")

    def describe(self, path: str, form: str) -> Description:
        """Return the description of a file of the format `form`; by default its format, inputs and outputs.

        Raises by default: ShimError if the framework does not work, and the errors of `load_converted`.
        """
        probe = self.probe()
        if not probe.available:
            raise ShimError(probe.reason, shim=self.name)
        _, inputs, outputs = self.load_converted(path, form)
        ports = [("input", port) for port in inputs] + [("output", port) for port in outputs]
        rows = [
            {"": kind, "name": port.name, "type": str(port.dtype), "shape": list(port.shape)} for kind, port in ports
        ]
        return Description({"format": self.formats[form][1]}, {"inputs and outputs": rows})

    def look_inside(self, path: str, form: str) -> OpenedFile:
        """Open a file, to run it and read its intermediate values. Raises UnsupportedError by default."""
        raise UnsupportedError(
            "the shim %s cannot look inside a file" % self.name, hint="leave `--layers` out, or look at a .tflite file"
        )
