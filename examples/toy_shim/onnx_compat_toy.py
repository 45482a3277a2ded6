"""An example: the least that a shim of your own can be.

Its "framework" is plain numpy, its tensors are arrays, and it does ten primitives. Everything else of a model runs in the
fallback; `onnx_compat.support(model, "toy")` says what.
"""

import numpy as np

from onnx_compat.emission import emit
from onnx_compat.shim import Compiled, Emitter, Probe, Shim


class ToyEmitter(Emitter):
    layout = "channels_first"  # images as ONNX has them
    filter_layout = "OIHW"
    concrete = True  # handles hold values, so sizes are ints

    # What every emitter has beside the primitives.
    def constant(self, array, dtype):
        return array

    def dim(self, handle, axis):
        return handle.shape[axis]

    def element(self, handle, index):
        return int(handle.reshape(-1)[index or 0])

    def stack(self, scalars):
        return np.asarray(scalars, np.int64)

    # The primitives: tensors and sizes by position, everything else by name.
    def add(self, x, y):
        return x + y

    def sub(self, x, y):
        return x - y

    def mul(self, x, y):
        return x * y

    def tanh(self, x):
        return np.tanh(x)

    def clip(self, x, low, high):
        return np.clip(x, low, high)

    def matmul(self, x, y, bias=None, transpose_x=False, transpose_y=False):
        x = np.swapaxes(x, -1, -2) if transpose_x else x
        y = np.swapaxes(y, -1, -2) if transpose_y else y
        return x @ y if bias is None else x @ y + bias

    def reshape(self, x, shape):
        return x.reshape(shape.known)

    def transpose(self, x, perm):
        return x.transpose(perm)

    def reduce_mean(self, x, axes, keepdims):
        return x.mean(axis=axes, keepdims=keepdims, dtype=x.dtype)

    def softmax(self, x, axis):
        power = np.exp(x - x.max(axis, keepdims=True))
        return power / power.sum(axis, keepdims=True)


class ToyCompiled(Compiled):
    """A framework with a compiled form would emit the program once, here; numpy walks it at every run."""

    def __init__(self, program):
        self.native = program

    def run(self, arrays):
        return [np.asarray(output) for output in emit(self.native.region, ToyEmitter(), arrays)]


class ToyShim(Shim):
    name = "toy"
    modules = ()  # nothing that a user imports tells that it should be taken

    def probe(self):
        return Probe(True, "an example", "numpy", np.__version__)

    def emitter(self):
        return ToyEmitter()

    def compile(self, program, device=None):  # device: None or "cpu", as long as the shim declares no other `devices`
        return ToyCompiled(program)


SHIM = ToyShim()
