"""Table of ONNX releases: their operator set versions and their file format (IR) versions.

It repeats onnx.helper.VERSION_TABLE of onnx 1.23, because older releases of onnx lack the newer rows.
"""

from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional

from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir.dtypes import DType

__all__ = [
    "IMPLIED",
    "NEWEST",
    "NEWEST_IR",
    "RELEASES",
    "Release",
    "check_versions",
    "ir_for",
    "ir_of_type",
    "normalise",
    "reader_of",
    "release_of",
]

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
PREVIEW = "ai.onnx.preview"


class Release(NamedTuple):
    """A release of onnx: its version, the IR version that it writes, and the newest opset of each domain.

    The opset 0 stands for a domain that the release lacks.
    """

    onnx: str
    ir: int
    opset: int
    ml: int
    training: int = 0
    preview: int = 0


#: Oldest first, without the releases that changed none of the numbers.
RELEASES = (
    Release("1.0", 3, 1, 1),
    Release("1.1", 3, 5, 1),
    Release("1.1.2", 3, 6, 1),
    Release("1.2", 3, 7, 1),
    Release("1.3", 3, 8, 1),
    Release("1.4.1", 4, 9, 1),
    Release("1.5.0", 5, 10, 1),
    Release("1.6.0", 6, 11, 2),
    Release("1.7.0", 7, 12, 2, 1),
    Release("1.8.0", 7, 13, 2, 1),
    Release("1.9.0", 7, 14, 2, 1),
    Release("1.10.0", 8, 15, 2, 1),
    Release("1.11.0", 8, 16, 3, 1),
    Release("1.12.0", 8, 17, 3, 1),
    Release("1.13.0", 8, 18, 3, 1),
    Release("1.14.0", 9, 19, 3, 1),
    Release("1.15.0", 9, 20, 4, 1),
    Release("1.16.0", 10, 21, 5, 1),
    Release("1.17.0", 10, 22, 5, 1),
    Release("1.18.0", 11, 23, 5, 1),
    Release("1.19.0", 12, 24, 5, 1),
    Release("1.20.0", 13, 25, 5, 1),
    Release("1.21.0", 13, 26, 5, 1),
    Release("1.22.0", 13, 27, 5, 1),
    Release("1.23.0", 14, 28, 5, 1, 1),
)

#: The newest version of each standard domain that this library supports.
NEWEST: Dict[str, int] = {
    "": RELEASES[-1].opset,
    ML: RELEASES[-1].ml,
    TRAINING: RELEASES[-1].training,
    PREVIEW: RELEASES[-1].preview,
}
NEWEST_IR = RELEASES[-1].ir

#: Domains that a model may use without importing them, and their versions: onnxruntime permits it.
IMPLIED: Dict[str, int] = {"com.microsoft": 1}

#: The IR version that introduced an element type, for the types that IR 3 lacks.
_TYPE_IR = {"bfloat16": 4, "uint4": 10, "int4": 10, "float4e2m1": 11, "float8e8m0": 12, "uint2": 13, "int2": 13}
_TYPE_IR.update(dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), 9))
_TYPE_IR.update(float6e2m3=14, float6e3m2=14)


def normalise(domain: str) -> str:
    """Return the canonical name of a domain: "ai.onnx" -> "", its short form; any other domain stays."""
    return "" if domain == "ai.onnx" else domain


def release_of(domain: str, version: int) -> Optional[Release]:
    """Return the first onnx release that has this version, or a later version, of a standard domain.

    None for another domain, a version below 1, and a version newer than all releases.
    """
    column = {"": "opset", ML: "ml", TRAINING: "training", PREVIEW: "preview"}.get(normalise(domain))
    if column is None or version < 1:
        return None
    return next((release for release in RELEASES if getattr(release, column) >= version), None)


def reader_of(opsets: Mapping[str, int], ir: int) -> Optional[Release]:
    """Return the first onnx release that can read a model with these opsets and this IR version; None if no release
    can.

    Domains outside of the standard are ignored. An opset below 1, or an opset or `ir` newer than all releases, gives
    None.
    """
    standard = [release_of(domain, version) for domain, version in opsets.items() if normalise(domain) in NEWEST]
    needed = [*standard, next((release for release in RELEASES if release.ir >= ir), None)]
    releases = [release for release in needed if release is not None]
    return max(releases, key=RELEASES.index) if len(releases) == len(needed) else None


def ir_of_type(dtype: DType) -> int:
    """Return the IR version that introduced an element type: 3 or later."""
    return _TYPE_IR.get(dtype.name, 3)


def ir_for(opsets: Mapping[str, int], dtypes: Iterable[DType] = (), floor: int = 4) -> int:
    """Return the oldest IR version that supports these opsets and element types: `floor` or later.

    IR 4 is the first version in which initializers need not be inputs. Raises UnsupportedError for a version of a
    standard domain that is below 1 or newer than all releases. Other domains are ignored.
    """
    needed: List[int] = [floor]
    needed += [ir_of_type(dtype) for dtype in dtypes]
    for domain, version in opsets.items():
        release = release_of(domain, version)
        if release is not None:
            needed.append(release.ir)
        elif normalise(domain) in NEWEST:
            raise UnsupportedError(
                "version %d of %s is newer than any that this release knows (%d)"
                % (version, domain or "ai.onnx", NEWEST[normalise(domain)])
            )
    return max(needed)


def check_versions(versions: Mapping[str, int]) -> None:
    """Raise UnsupportedError for a version of a standard domain that is too new, and InvalidModelError for one below 1.

    `versions`: domain -> version. The domain of ai.onnx must be "" (see `normalise`). Other domains are not checked.
    """
    for domain, version in versions.items():
        if version < 1 and domain in NEWEST:
            raise InvalidModelError("the model imports version %d of %s" % (version, domain or "ai.onnx"))
        if version > NEWEST.get(domain, version):
            raise UnsupportedError(
                "the model uses opset %d of %s; the newest that this release knows is %d"
                % (version, domain or "ai.onnx", NEWEST[domain]),
                opset=version,
                hint="update onnx-compat, or export the model with opset %d" % NEWEST[domain],
            )
