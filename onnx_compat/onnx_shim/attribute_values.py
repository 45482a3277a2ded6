"""The values of attributes that not every version of an operator has.

The schemas of onnx list the names of attributes only.
"""

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

__all__ = ["has_values"]


class _Versions(NamedTuple):
    """The operator sets that allow a value: from `first` on, and below `end`. None: in every set from `first` on."""

    first: int
    end: Optional[int] = None


_EXTREMES = {"max": _Versions(18), "min": _Versions(18)}

#: (operator of ai.onnx, attribute) -> value -> operator sets. Values that every version has are left out.
_VALUES: Dict[Tuple[str, str], Dict[Any, _Versions]] = {
    ("GridSample", "mode"): {
        "bicubic": _Versions(16, 20),
        "bilinear": _Versions(16, 20),
        "cubic": _Versions(20),
        "linear": _Versions(20),
    },
    ("Pad", "mode"): {"wrap": _Versions(19)},
    ("Resize", "coordinate_transformation_mode"): {
        "half_pixel_symmetric": _Versions(19),
        "tf_half_pixel_for_nn": _Versions(11, 13),
    },
    ("Resize", "mode"): {"cubic": _Versions(11)},
    ("ScatterElements", "reduction"): _EXTREMES,
    ("ScatterND", "reduction"): _EXTREMES,
}


def has_values(operator: str, attributes: Mapping[str, Any], opset: int) -> bool:
    """Whether an operator of ai.onnx allows these attributes (name -> value) in the operator set `opset`.

    True for an attribute and a value that `_VALUES` does not list.
    """
    for name, value in attributes.items():
        values = _VALUES.get((operator, name))
        versions = None if values is None else values.get(value)
        if versions is not None and not versions.first <= opset < (versions.end or opset + 1):
            return False
    return True
