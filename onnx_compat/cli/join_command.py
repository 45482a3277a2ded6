"""`onnx-compat join`: write several converted files as one file with several signatures."""

from typing import Dict, Optional, Tuple

import click

from onnx_compat.cli import options
from onnx_compat.cli.output import emit, emit_json

__all__ = ["join"]


def _parse_files(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Dict[str, str]:
    """Parse texts NAME=FILE to a dict. Raise BadParameter for another form or for two equal names."""
    pairs = [part.partition("=") for part in value]
    if any(not name or not path for name, _, path in pairs) or len({name for name, _, _ in pairs}) < len(pairs):
        raise click.BadParameter("give NAME=FILE for each file, with different names", ctx, param)
    return {name: path for name, _, path in pairs}


@click.command()
@click.argument("path", type=click.Path())
@click.argument("files", nargs=-1, required=True, callback=_parse_files, metavar="NAME=FILE...")
@options.shim
@options.machine
@click.pass_obj
def join(settings: options.Settings, path: str, files: Dict[str, str], shim: Optional[str]) -> None:
    """Write PATH, a .tflite file with a signature NAME for each FILE. Equal weights are stored once."""
    from onnx_compat.conversion.join import join as join_files

    written = join_files(files, path, shim)
    size = written.stat().st_size
    if settings.json:
        emit_json({"ok": True, "path": str(written), "bytes": size, "signatures": list(files)})
    else:
        emit("wrote %s (%d bytes), with the signatures %s" % (written, size, ", ".join(files)))
