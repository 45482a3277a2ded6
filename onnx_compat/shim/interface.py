"""What a shim is: a framework's side of the seam.

A shim brings four things. A probe: does the framework work here, which one is it, what can it do (`devices`: where can
it compute). An emitter: one method for each primitive, over the framework's own tensors. `compile`: how a recorded
program becomes something that runs. And, where the framework has file formats, exporters and a loader of what they wrote.
"""

import abc
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
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
from onnx_compat.shim.description import Description, OpenedFile

if TYPE_CHECKING:
    from onnx_compat.passes import Pass

__all__ = ["Compiled", "Emitter", "Native", "Port", "Probe", "Program", "Quantization", "Scheme", "Shim", "native"]


class Probe(NamedTuple):
    """What was found when the framework was looked for."""

    available: bool
    reason: str  # why (not), in words
    framework: str = ""  # "tensorflow"
    version: str = ""
    features: Mapping[str, Any] = {}


class Port(NamedTuple):
    """A tensor that goes into or comes out of a program. A size is an int; or it is only known at run time: None, or a
    name, where equal names are equal sizes.
    """

    name: str
    dtype: DType
    shape: Tuple[Union[int, str, None], ...]

    @property
    def sizes(self) -> Tuple[Optional[int], ...]:
        """The sizes, None for all that are only known at run time."""
        return tuple(size if isinstance(size, int) else None for size in self.shape)


class Program(NamedTuple):
    """A recorded model: what a shim compiles. Emit it with `onnx_compat.shim.emission.emit(region, emitter, handles)`."""

    name: str
    inputs: Tuple[Port, ...]
    outputs: Tuple[Port, ...]
    region: Region

    @property
    def target(self) -> Optional[Target]:
        """What the program was recorded for: the emitter that emits it must have this target."""
        return self.region.target

    def __str__(self) -> str:
        from onnx_compat.ir.printer import format_program

        return format_program(self)


class Scheme(NamedTuple):
    """A way to quantise what a shim writes."""

    kind: str
    meaning: str
    #: The signal-to-noise ratio in dB that an output must have beside the model's where no tolerance is given.
    fidelity: float
    calibrated: bool = False  # whether it learns from samples
    blocks: bool = False  # whether a block of weights may have a scale of its own


class Quantization(NamedTuple):
    """How a file is to be quantised: one of the shim's schemes, and what that takes."""

    scheme: Scheme
    #: Feeds by name, as `Program.inputs` are called; nothing where the scheme learns from none.
    samples: Iterable[Mapping[str, np.ndarray]] = ()
    block: Optional[int] = None  # how many weights share a scale; None: those of an output channel


class Compiled(abc.ABC):
    """A program that runs. `native` is the framework's own object."""

    native: Any = None
    #: How the file that was loaded is quantised.
    scheme: Optional[Scheme] = None

    @abc.abstractmethod
    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Carrier arrays for the inputs in, carrier arrays of the outputs out, in the program's order. Several threads may
        call it at once.
        """

    @property
    def traces(self) -> int:
        """How often the framework has traced or compiled the program so far."""
        return 1


class Native(NamedTuple):
    """A whole ONNX operator that a shim does itself (see `native`)."""

    accepts: Callable[..., bool]
    method: str
    spatial: bool
    stored: Optional[Tuple[int, ...]] = None


class Emitter:
    """The primitives over a framework's tensors ("handles"): a method for each name in `primitives.PRIMITIVES`. What
    the primitive takes as tensors and as sizes comes first, by position, as handles and as `emission.Sizes` (a list of
    tensors as a list); everything else comes by name, axes physical and never None. `reference.Reference` shows each.
    A method may look at `self.node` for the types of arguments and results.

    A method gives a handle, or a tuple of handles where the primitive has several results (so a handle itself must not
    be a tuple). One that cannot do a case raises `UnsupportedError`; the node then runs in the fallback, as it does
    where there is no method. `compile` walks a program with `emission.emit`. Beside the primitives a shim needs
    `constant`, `dim`, `element` and `stack`, a symbolic one `placeholder` too (for `support`), a concrete one `shape`
    and `fetch`.
    """

    #: 'channels_last' or 'channels_first': how convolutions and pools want an image.
    layout = "channels_last"
    #: How they want a filter: O output channels, I input channels, HW all spatial axes.
    filter_layout = "HWIO"
    #: The dtype in which sizes are computed at run time.
    index_dtype = dtypes.int64
    #: Whether an operator between a DequantizeLinear and a QuantizeLinear becomes a kernel on integers: operators on
    #: quantized numbers are then recorded as such three.
    integers = False
    #: Whether handles hold values now: sizes are then ints, and emitting is executing.
    concrete = False

    node: Node

    @property
    def target(self) -> Target:
        """What a program is recorded for when this emitter is to emit it."""
        return Target(self.layout, self.filter_layout, self.integers)

    @property
    def out(self) -> Spec:
        """The type of the (first) result of the node under way, as the shim lays it out."""
        return self.node.outputs[0].spec

    # -- what every emitter provides beside the primitives ---------------------------------------------------------
    def constant(self, array: np.ndarray, dtype: DType) -> Any:
        """A handle of a known value."""
        raise NotImplementedError

    def dim(self, handle: Any, axis: int) -> Any:
        """The length of an axis: an int if it is known, else a scalar handle of `index_dtype`."""
        raise NotImplementedError

    def element(self, handle: Any, index: Optional[int]) -> Any:
        """An element of an integer vector (None: of a scalar): an int if concrete, else a scalar of `index_dtype`
        (or of the vector's own dtype, where that holds more: see `promoted`).
        """
        raise NotImplementedError

    def stack(self, scalars: Sequence[Any]) -> Any:
        """Scalar handles of `index_dtype` as one vector."""
        raise NotImplementedError

    def promoted(self, a: Any, b: Any) -> Tuple[Any, Any]:
        """Two scalar sizes in one dtype. A shim whose `element` has more than one dtype overrides this."""
        return a, b

    def placeholder(self, spec: Spec) -> Any:
        """A handle of an unknown value of this type, in a scratch place. Sizes that are not ints are unknown."""
        raise NotImplementedError

    def finish(self, handle: Any, dtype: DType) -> Any:
        """What a primitive gave, as values of its dtype: where arithmetic on the carrier left them, they are rounded. An
        emitter whose framework has the dtype itself need not do that. Called for every result.
        """
        from onnx_compat.primitives.carried import MOVES, to_values

        node = self.node
        if dtype.native or node.primitive in MOVES:
            return handle
        rank = next(ref.spec.rank for ref in node.outputs if ref.spec.dtype == dtype)
        (rounded,) = emission.emit(to_values(dtype, rank), self, [handle])
        self.node = node
        return rounded

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Context in which a concrete emitter executes a whole model: on the device that it was made for."""
        yield

    def called(self, handle: Any, name: str) -> None:
        """Told of a handle that holds a value of the model under this name; where tensors have names, it may be theirs."""

    # -- a primitive that the core does itself ----------------------------------------------------------------------
    def gradient(self, *xs: Any, bodies: Sequence[Any], captures: Sequence[Any], refusal: str) -> Tuple[Any, ...]:
        """By the core's rules. An emitter whose framework differentiates does it in its own way."""
        if refusal:
            raise UnsupportedError(refusal, hint="compute this gradient outside of the model")
        return tuple(bodies[1](*xs, *captures))

    # -- concrete emitters only -------------------------------------------------------------------------------------
    def shape(self, handle: Any) -> Tuple[int, ...]:
        """The shape of a handle that holds a value."""
        raise NotImplementedError

    def fetch(self, handle: Any) -> np.ndarray:
        """The value that a handle holds."""
        raise NotImplementedError


def native(
    operator: str,
    accepts: Optional[Callable[..., bool]] = None,
    domain: str = "",
    spatial: bool = False,
    available: Optional[Callable[[Any], bool]] = None,
    stored: Optional[Tuple[int, ...]] = None,
) -> Callable[[Any], Any]:
    """Declare a method of an emitter as a fast path for a whole operator. With `spatial`, its first input and output
    are images in the shim's layout; `stored` is the order of axes in which it gives the first output; everything else is in
    the order as written.

    `available(emitter)` says whether the framework at hand has what it takes, `accepts(node, inputs, attributes)` whether
    it takes this case (`inputs`: the traced Tensors, None where left out; of `node.outputs`, those that nobody reads have
    no name); the composed meaning serves otherwise. The method gets the inputs' handles, then the attributes by name; it
    gives the results in their order, the last ones only if somebody reads them.
    """

    def declare(method: Any) -> Any:
        method.native = (domain, operator, accepts or (lambda *_: True), spatial, available, stored)
        return method

    return declare


def declared_natives(emitter: Any) -> Dict[Tuple[str, str], Native]:
    """The fast paths that an emitter's class declares, and its framework has."""
    found = {}
    for name in dir(type(emitter)):
        declared = getattr(getattr(type(emitter), name), "native", None)
        if isinstance(declared, tuple):
            domain, operator, accepts, spatial, available, stored = declared
            if available is None or available(emitter):
                found[domain, operator] = Native(accepts, name, spatial, stored)
    return found


class Shim(abc.ABC):
    """A framework, as the core sees it. One instance, named by the entry point, lives in each distribution."""

    name: str = ""
    #: The modules that tell that the user works with this framework, e.g. ("tensorflow",).
    modules: Tuple[str, ...] = ()
    #: Format name -> (suffix of the path, "" for a folder; what it is), e.g. {"tflite": (".tflite", "TF Lite file")}.
    formats: Mapping[str, Tuple[str, str]] = {}
    #: Format name -> how its files can be quantised.
    schemes: Mapping[str, Tuple[Scheme, ...]] = {}

    @property
    def passes(self) -> "Sequence[Pass]":
        """The rewrites of this shim, each once, in the order in which they run. Those of the core are not among them."""
        return ()

    @abc.abstractmethod
    def probe(self) -> Probe:
        """Import the framework and find out what it can do. Never raises."""

    @abc.abstractmethod
    def emitter(self) -> Emitter:
        """An emitter as `compile` uses it; the trace reads its layouts and fast paths."""

    @abc.abstractmethod
    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """The program in the framework's compiled form, whose `run` and `native` compute on `device`: an entry of
        `devices()`, or None for the framework's own choice. `UnsupportedError` names a node that cannot be expressed.
        """

    def executor(self, device: Optional[str] = None) -> Optional[Emitter]:
        """Return a new concrete emitter that executes on `device` as it goes, for models that no compiled form can express.

        None: the framework has no such mode, and the part runs in the fallback. Each run has an emitter of its own.
        """
        return None

    def devices(self) -> Sequence[str]:
        """Names of the framework's devices here, logical devices included: "cpu:0", "cpu:1", "gpu:0". A name without a
        number is the only device of its kind.
        """
        return ("cpu",)

    def resolve_device(self, name: Optional[str]) -> Optional[str]:
        """Return the entry of `devices()` that a name like "cpu", "CUDA:1" or "gpu" means; None for None. Raise
        `ShimError`, which lists the devices, if there is none. Not to be overridden.
        """
        return None if name is None else devices.resolve(name, self.devices(), self.name)

    @contextmanager
    def scratch(self) -> Iterator[Emitter]:
        """A place to try out what can be emitted, without running anything and without a trace of it left behind."""
        yield self.emitter()

    def export(self, program: Program, path: str, form: str) -> None:
        """Write the program in one of `formats` to `path` (which does not exist yet; the caller renames it). Nobody needs
        the program afterwards.
        """
        raise UnsupportedError("the shim %s writes no file format" % self.name)

    def portable(self) -> "Shim":
        """The same, but its files are for the oldest runtime of the framework, and all since, and not for the one here."""
        raise ConversionError(
            "the files of the shim %s are for one version of the framework" % self.name,
            hint="leave `portable` (--portable) out; .tflite files have it",
            shim=self.name,
        )

    def quantize(self, path: str, form: str, how: Quantization) -> None:
        """Quantise what `export` has just written, in place."""
        raise UnsupportedError("the shim %s quantises no file" % self.name)

    def load_converted(self, path: str, form: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        """Load what `export` wrote: the thing that runs, its inputs and its outputs."""
        raise UnsupportedError("the shim %s reads no file format" % self.name)

    def load_signature(
        self, path: str, form: str, signature: str
    ) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
        """The same of one of several models in a file (see `join`)."""
        raise UnsupportedError("a file of the format '%s' holds one model" % form, hint="leave the signature out")

    def join(self, parts: Mapping[str, str], path: str, form: str) -> None:
        """Write files of the format as one, in which each has a signature of this name."""
        raise UnsupportedError("a file of the format '%s' holds one model" % form, hint="keep the files apart")

    def describe(self, path: str, form: str) -> Description:
        """What a file in one of `formats` is. Here: what goes in and comes out; a shim that can read more tells more."""
        found = self.probe()
        if not found.available:
            raise ShimError(found.reason, shim=self.name)
        _, inputs, outputs = self.load_converted(path, form)
        ports = [("input", port) for port in inputs] + [("output", port) for port in outputs]
        rows = [{"": kind, "name": one.name, "type": str(one.dtype), "shape": list(one.shape)} for kind, one in ports]
        return Description({"format": self.formats[form][1]}, {"inputs and outputs": rows})

    def look_inside(self, path: str, form: str) -> OpenedFile:
        """A file in one of `formats`, to be run with all that comes about in between."""
        raise UnsupportedError(
            "the shim %s cannot look inside a file" % self.name, hint="leave `--layers` out, or look at a .tflite file"
        )
