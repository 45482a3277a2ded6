"""`onnx-compat join`: several converted files as one."""

from typing import Dict, Optional, Tuple

import click

from onnx_compat.cli import options
from onnx_compat.cli.output import emit, emit_json

__all__ = ["join"]


def _named(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Dict[str, str]:
    pairs = [part.partition("=") for part in value]
    if any(not name or not path for name, _, path in pairs) or len({name for name, _, _ in pairs}) < len(pairs):
        raise click.BadParameter("each is NAME=FILE, with a name of its own", ctx, param)
    return {name: path for name, _, path in pairs}


@click.command()
@click.argument("path", type=click.Path())
@click.argument("files", nargs=-1, required=True, callback=_named, metavar="NAME=FILE...")
@options.shim
@options.machine
@click.pass_obj
def join(settings: options.Settings, path: str, files: Dict[str, str], shim: Optional[str]) -> None:
    """Write PATH, a .tflite file with a signature NAME for each FILE. Equal weights are stored once."""
    from onnx_compat.conversion.join import join as joined

    written = joined(files, path, shim)
    size = written.stat().st_size
    if settings.json:
        emit_json({"ok": True, "path": str(written), "bytes": size, "signatures": list(files)})
    else:
        emit("wrote %s (%d bytes), with the signatures %s" % (written, size, ", ".join(files)))
