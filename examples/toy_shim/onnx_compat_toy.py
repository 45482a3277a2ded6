"""Example of a minimal shim.

Its "framework" is numpy: tensors are arrays. The shim implements ten primitives. Nodes that need other primitives run
in the fallback; `onnx_compat.support(model, "toy")` lists them.
"""

import numpy as np

from onnx_compat.shim import Compiled, Emitter, Probe, Shim, emit


class ToyEmitter(Emitter):
    """Computes each primitive as soon as it is emitted, because numpy has no graph."""

    layout = "channels_first"  # images as ONNX has them
    filter_layout = "OIHW"
    concrete = True  # handles hold values, so sizes are integers

    # Methods of every emitter, beside the primitives.
    def constant(self, array, dtype):
        return array

    def dim(self, handle, axis):
        return handle.shape[axis]

    def element(self, handle, index):
        return int(handle.reshape(-1)[index or 0])

    def stack(self, scalars):
        return np.asarray(scalars, np.int64)

    # The primitives: tensors and sizes are positional arguments, all others are keyword arguments.
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
    """A program that numpy runs step by step.

    A shim for a compiled framework would emit the program once, in `__init__`.
    """

    def __init__(self, program):
        self.native = program

    def run(self, arrays):
        return [np.asarray(output) for output in emit(self.native.region, ToyEmitter(), arrays)]


class ToyShim(Shim):
    """The shim. `SHIM` is its instance, which the entry point in pyproject.toml names."""

    name = "toy"
    modules = ()  # no import of the user selects it

    def probe(self):
        return Probe(True, "an example", "numpy", np.__version__)

    def emitter(self):
        return ToyEmitter()

    def compile(self, program, device=None):  # device: None or "cpu", as long as the shim declares no other `devices`
        return ToyCompiled(program)


SHIM = ToyShim()
