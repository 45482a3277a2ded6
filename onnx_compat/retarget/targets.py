"""Choose the versions that a target has: of each domain, and of the file format."""

from typing import Dict, Mapping, Optional

from onnx_compat.errors import ConversionError
from onnx_compat.model.versions import ML, NEWEST, NEWEST_IR, PREVIEW, RELEASES, TRAINING, Release

__all__ = ["FLOOR", "FLOOR_IR", "check_ir_version", "target_opsets"]

#: The oldest opset that models are written for, and the oldest IR version.
FLOOR = 1
FLOOR_IR = 3


def target_opsets(source: Mapping[str, int], opset: Optional[int]) -> Dict[str, int]:
    """Return domain -> version of the target, for the domains in `source` (domain -> version of the source).

    `opset`: the version of ai.onnx; None: every version stays.

    - Another standard domain keeps its version, but gets at most the version that the release of onnx with this opset
      has. This is 0 if the release lacks the domain.
    - Any other domain keeps its version.

    Raises ConversionError for an opset that does not exist, or is newer than this library or the installed onnx knows.
    """
    if opset is None:
        return dict(source)
    release = _release(opset)
    newest = {ML: release.ml, TRAINING: release.training, PREVIEW: release.preview}
    versions = {domain: min(version, newest.get(domain, version)) for domain, version in source.items()}
    if "" in source:
        versions[""] = opset
    return versions


def _release(opset: object) -> Release:
    """Return the release of onnx that introduced an opset.

    Raises ConversionError for an opset that does not exist, or is newer than this library or the installed onnx knows.
    """
    from onnx import defs

    if isinstance(opset, bool) or not isinstance(opset, int):
        raise ConversionError("an opset is an integer, not %r" % (opset,), hint="give a number such as 13")
    if opset < FLOOR:
        raise ConversionError("there is no opset %d" % opset, hint="the first opset is %d" % FLOOR)
    if opset > NEWEST[""]:
        raise ConversionError(
            "opset %d is newer than this release knows: the newest is %d" % (opset, NEWEST[""]),
            hint="update onnx-compat",
        )
    installed = defs.onnx_opset_version()
    if opset > installed:
        raise ConversionError(
            "opset %d is newer than the installed onnx knows: its newest is %d" % (opset, installed),
            hint="update onnx; it has the schemas of the operators",
        )
    return next(release for release in RELEASES if release.opset >= opset)


def check_ir_version(version: object) -> int:
    """Return an IR version that a caller asks for, if models can be written with it.

    Raises ConversionError for a value that is no int, below 3, or newer than this library knows.
    """
    if isinstance(version, bool) or not isinstance(version, int):
        raise ConversionError("an IR version is an integer, not %r" % (version,), hint="give a number such as 8")
    if version < FLOOR_IR:
        raise ConversionError(
            "no model is written with IR version %d: the oldest is %d" % (version, FLOOR_IR),
            hint="leave the IR version out: it follows from the opset",
        )
    if version > NEWEST_IR:
        raise ConversionError(
            "IR version %d is newer than this release knows: the newest is %d" % (version, NEWEST_IR),
            hint="leave the IR version out: it follows from the opset",
        )
    return version
