"""Representative inputs, one sample after the other: what a full integer quantisation learns the ranges of values from.

    a .npz file        an array for each input; what a dict of arrays says, too
    a .npy file        the array of the only input; an array, too
    a folder           of .npz files, .npy files or images, in the order of their names
    an iterable        of samples: a dict by name, a sequence in the model's order, or the array of the only input
    "generated"        made up as for `verify`: the file works, its accuracy means nothing

An array of a file is cut along its first axis. With one axis more than the input has, each element is a sample; with as
many axes, each piece as long as the input's first axis, or of length one where that is open.
"""

from onnx_compat.calibration.images import Images
from onnx_compat.calibration.samples import GENERATED, Sample, batch, paths_of, samples

__all__ = ["GENERATED", "Images", "Sample", "batch", "paths_of", "samples"]
