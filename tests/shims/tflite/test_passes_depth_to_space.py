"""DepthToSpace and SpaceToDepth beside convolutions, with the results of the reference."""

from typing import Any, List

import numpy as np
import programs
import pytest
from onnx_compat_tflite import features

from onnx_compat import primitives as p
from onnx_compat.ir.window import Window
from onnx_compat.ops.shape import depth_to_space, space_to_depth

W = np.random.RandomState(0).standard_normal((48, 48, 3, 3)).astype(np.float32) / 10


def conv(x: Any, filters: int, kernel: int = 3) -> Any:
    own = np.ascontiguousarray(W[:filters, : x.shape[1], :kernel, :kernel])
    pads = ((kernel // 2, kernel // 2),) * 2
    return p.conv(x, own, W[0, :filters, 0, 0], window=Window.of((kernel, kernel), pads=pads))


#: Beside an open batch, the six axes of a block cannot be fewer.
OPEN = [(None, 3, 6, 12)] if features.kernels().accepts("TRANSPOSE", "float32", "rank 6") else []


def kinds(function: Any, sizes: Any = (2, 3, 6, 5), fed: Any = (2, 3, 6, 5)) -> List[str]:
    """Return the operators of a program without the TRANSPOSEs of the input and the output.

    Assert that the results are right.
    """
    builtins = [op.builtin for op in programs.check_program(function, sizes, fed=[fed])]
    return builtins[builtins[0] == "TRANSPOSE" : len(builtins) - (builtins[-1] == "TRANSPOSE")]


def shuffle(x: Any, mode: str = "CRD", size: int = 2) -> Any:
    return depth_to_space(x, blocksize=size, mode=mode)


@pytest.mark.parametrize("sizes", [(2, 3, 6, 5), (1, 3, 6, 6), *OPEN])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("size", "channels"), [(2, 16), (2, 4), (3, 18), (4, 48)])
def test_channels_that_become_pixels_are_one_operator(sizes: Any, mode: str, size: int, channels: int) -> None:
    fed = [2 if extent is None else extent for extent in sizes]
    first = ["RESHAPE"] if channels == size**2 else []  # where others are transposed
    result = kinds(lambda x: shuffle(conv(x, channels), mode, size), sizes, fed)
    assert result == ["CONV_2D", "DEPTH_TO_SPACE", *first]
    both = kinds(lambda x: conv(p.relu(shuffle(p.relu(conv(x, channels)), mode, size)), 4), sizes, fed)
    assert both == ["CONV_2D", "DEPTH_TO_SPACE", "RELU", "CONV_2D"]


def test_pixel_shuffle_of_pytorch_is_one_operator() -> None:
    def spelt(x: Any) -> Any:
        x = conv(x, 12)
        blocks = p.transpose(p.reshape(x, (2, 3, 2, 2, 6, 5)), (0, 1, 4, 2, 5, 3))
        return conv(p.reshape(blocks, (2, 3, 12, 10)), 4)

    assert kinds(spelt) == ["CONV_2D", "DEPTH_TO_SPACE", "CONV_2D"]


def test_channels_without_a_layer_keep_their_transpose() -> None:
    moves = ["RESHAPE", "TRANSPOSE", "RESHAPE"]
    assert kinds(lambda x: shuffle(p.tanh(conv(x, 12))))[2:] == moves
    assert kinds(lambda x: shuffle(p.tanh(conv(x, 12)), "DCR"))[2:] == ["DEPTH_TO_SPACE"]

    def beside(x: Any) -> Any:
        x = conv(x, 12)
        return p.mul(shuffle(x), p.reduce_mean(p.tanh(x), [1, 2, 3], True))

    assert [kind for kind in kinds(beside) if kind in (*moves, "DEPTH_TO_SPACE")] == moves


def test_other_permutations_are_no_depth_to_space() -> None:
    def move(perm: Any, last: Any) -> Any:
        return lambda x: conv(p.reshape(p.transpose(p.reshape(conv(x, 16), (2, 4, 2, 2, 6, 6)), perm), last), 4)

    for perm in ((0, 1, 4, 3, 5, 2), (0, 1, 2, 4, 5, 3), (0, 1, 2, 4, 3, 5)):
        kinds(move(perm, (2, 4, 12, 12)), (2, 3, 6, 6), (2, 3, 6, 6))


@pytest.mark.parametrize("sizes", [(2, 3, 6, 8), (1, 2, 6, 6), *OPEN])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("size", [2, 3])
def test_blocks_of_pixels_are_read_by_the_convolution_itself(size: int, mode: str, sizes: Any) -> None:
    fed = [2 if extent is None else extent for extent in sizes]
    fed[2:] = [6, 12] if size == 3 else fed[2:]
    sizes = [*sizes[:2], *fed[2:]]
    result = kinds(lambda x: conv(space_to_depth(p.tanh(conv(x, 3)), blocksize=size, mode=mode), 4), sizes, fed)
    assert result == ["CONV_2D", "TANH", "CONV_2D"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_pixels_that_become_channels_are_moved_once(mode: str) -> None:
    result = kinds(lambda x: p.relu(space_to_depth(p.tanh(conv(x, 3)), blocksize=2, mode=mode)), *[(2, 3, 6, 8)] * 2)
    assert result.count("TRANSPOSE") == 1
