"""Which opset came with which ONNX release and file format (IR) version.

The facts of onnx.helper.VERSION_TABLE up to onnx 1.23, carried here because an older onnx does not have them.
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
    "normalise",
    "reader_of",
    "release_of",
]

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
PREVIEW = "ai.onnx.preview"


class Release(NamedTuple):
    """An onnx release: the IR version it writes and the newest opset of each domain that it knows."""

    onnx: str
    ir: int
    opset: int
    ml: int
    training: int = 0
    preview: int = 0


#: Oldest first; a release that changed none of the numbers is left out.
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

#: The newest version of each standard domain that this release knows. Other domains have versions of their own.
NEWEST: Dict[str, int] = {
    "": RELEASES[-1].opset,
    ML: RELEASES[-1].ml,
    TRAINING: RELEASES[-1].training,
    PREVIEW: RELEASES[-1].preview,
}
NEWEST_IR = RELEASES[-1].ir

#: Domains of which a model may use the first version without importing it, as onnxruntime lets it.
IMPLIED: Dict[str, int] = {"com.microsoft": 1}

#: The IR version that first had an element type, for the types that IR 3 did not have.
_TYPE_IR = {"bfloat16": 4, "uint4": 10, "int4": 10, "float4e2m1": 11, "float8e8m0": 12, "uint2": 13, "int2": 13}
_TYPE_IR.update(dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), 9))
_TYPE_IR.update(float6e2m3=14, float6e3m2=14)


def normalise(domain: str) -> str:
    """The default domain has two spellings."""
    return "" if domain == "ai.onnx" else domain


def release_of(domain: str, version: int) -> Optional[Release]:
    """The first onnx release with this version of a standard domain; None for another domain or version."""
    column = {"": "opset", ML: "ml", TRAINING: "training", PREVIEW: "preview"}.get(normalise(domain))
    if column is None or version < 1:
        return None
    return next((one for one in RELEASES if getattr(one, column) >= version), None)


def reader_of(opsets: Mapping[str, int], ir: int) -> Optional[Release]:
    """The first onnx release that knows these opsets and this IR version; None where none of the table does."""
    standard = [release_of(domain, version) for domain, version in opsets.items() if normalise(domain) in NEWEST]
    needed = [*standard, next((one for one in RELEASES if one.ir >= ir), None)]
    found = [one for one in needed if one is not None]
    return max(found, key=RELEASES.index) if len(found) == len(needed) else None


def ir_for(opsets: Mapping[str, int], dtypes: Iterable[DType] = ()) -> int:
    """The oldest IR version that may carry these opsets and element types; never below 4 (initializers are no inputs)."""
    needed: List[int] = [4]
    needed += [_TYPE_IR.get(dtype.name, 3) for dtype in dtypes]
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
    """Refuse versions of the standard domains that this release does not know; other domains are their owners'."""
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
