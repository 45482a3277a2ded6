"""Calibration data: representative inputs, from which a full integer quantisation takes the ranges of values.

    a .npz file        an array for each input; a dict of arrays has the same meaning
    a .npy file        the array of the only input; an array has the same meaning
    a folder           of .npz files, .npy files or images, which are read in the order of their names
    an iterable        of samples: a dict by name, a sequence in the model's order, or the array of the only input
    "generated"        generated inputs as for `verify`: the file works, but its accuracy is unknown

An array is split into samples along its first axis. If it has one axis more than the input, each slice is a sample. If
it has as many axes, a sample is as long as the first axis of the input; an open axis counts as 1.
"""

from onnx_compat.calibration.images import Images
from onnx_compat.calibration.samples import GENERATED, Sample, batch, paths_of, samples

__all__ = ["GENERATED", "Images", "Sample", "batch", "paths_of", "samples"]
