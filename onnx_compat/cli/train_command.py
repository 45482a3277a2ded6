"""`onnx-compat train`: train a model on arrays of a .npz file."""

import math
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

import click

from onnx_compat.cli import options
from onnx_compat.cli.exit_codes import OK
from onnx_compat.cli.output import count_of, emit, emit_json, table
from onnx_compat.cli.progress import working
from onnx_compat.cli.streams import input_file

if TYPE_CHECKING:
    from onnx_compat.training import Progress, Trainer

__all__ = ["train"]

_F = TypeVar("_F", bound=Callable[..., Any])


def _data(name: str, required: bool, text: str) -> Callable[[_F], _F]:
    return click.option(name, type=click.Path(dir_okay=False), required=required, callback=input_file, help=text)


@click.command()
@options.model
@_data("--data", True, "A .npz file with an array for each input and for the labels.")
@_data("--validation", False, "A .npz file like --data, which is evaluated after each epoch.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="The ONNX file to write.")
@click.option("--loss", metavar="NAME", help="The loss. Needed unless MODEL has training information.")
@click.option(
    "--loss-option", "loss_options", multiple=True, metavar="NAME=VALUE", callback=options.parse_values,
    help="An option of the loss, as JSON: from_logits=true. Repeatable.",
)  # fmt: skip
@click.option("--optimizer", default="adam", show_default=True, metavar="NAME", help="The optimizer.")
@click.option("--lr", type=float, metavar="NUMBER", help="The learning rate. Default: that of the optimizer.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="A metric to report. Repeatable.")
@click.option("--trainable", multiple=True, metavar="PATTERN", help="Train only these initializers. Repeatable.")
@click.option("--labels", metavar="NAME", help="The name of the labels in the data. Default: labels.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="The number of epochs.")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Examples in a batch.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Shuffles the data.")
@click.option("--initialize", is_flag=True, help="Begin with random weights, drawn by --seed.")
@click.option("--expanded", is_flag=True, help="Write the derivatives of the step in ordinary operators.")
@click.option("--with-training", is_flag=True, help="Write the training information too, to continue later.")
@click.option("--check-numerics", is_flag=True, help="End with an error if a result or a state is not finite.")
@click.option("--checkpoint", type=click.Path(dir_okay=False), help="The checkpoint. Default: OUTPUT.checkpoint.")
@click.option("--resume", is_flag=True, help="Continue at the checkpoint of an interrupted run.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write a page with the curves of the training.")
@options.shim
@options.machine
@click.pass_obj
def train(
    settings: options.Settings,
    model: str,
    data: str,
    validation: Optional[str],
    output: str,
    checkpoint: Optional[str],
    resume: bool,
    report: Optional[str],
    epochs: int,
    batch_size: int,
    seed: int,
    initialize: bool,
    with_training: bool,
    check_numerics: bool,
    shim: Optional[str],
    loss: Optional[str],
    loss_options: Dict[str, Any],
    optimizer: str,
    lr: Optional[float],
    metrics: Sequence[str],
    trainable: Sequence[str],
    labels: Optional[str],
    expanded: bool,
) -> int:
    """Train MODEL and write it with its new weights.

    Ctrl-C keeps the last complete step in the checkpoint, and --resume continues there. A complete run deletes it.
    """
    from onnx_compat.conversion.destinations import Destination
    from onnx_compat.training.curve_page import write_curves
    from onnx_compat.verification import load_npz

    checkpoint = checkpoint or output + ".checkpoint"
    for path in filter(None, (output, report, checkpoint)):
        Destination(path, [model, data, validation, *settings.modules])
    with working("Preparing %s" % model) as show:
        arrays = load_npz(data)
        held_out = None if validation is None else load_npz(validation)
        trainer = _prepare(model, shim, loss, loss_options, optimizer, lr, metrics, trainable, labels, expanded)
        if initialize:
            trainer.initialize(seed)
        if resume:
            trainer.load_checkpoint(checkpoint)
        completed = trainer.fit(
            arrays, epochs, batch_size, seed, held_out, [lambda progress: _show(show, progress, epochs)],
            check_numerics, checkpoint, resume,
        )  # fmt: skip
        trainer.save(output, training=with_training)
        if report is not None:
            write_curves(report, "Training of %s" % os.path.basename(model), completed)
        if os.path.exists(checkpoint):
            os.remove(checkpoint)
    _print_result(settings, trainer, completed, output, report)
    return OK


def _prepare(
    model: str,
    shim: Optional[str],
    loss: Optional[str],
    loss_options: Dict[str, Any],
    optimizer: str,
    lr: Optional[float],
    metrics: Sequence[str],
    trainable: Sequence[str],
    labels: Optional[str],
    expanded: bool,
) -> "Trainer":
    """Return a trainer of the model: with a new training information if `loss` is given, else with its own.

    - shim, lr, labels: None is the default of `prepare_training`, `optimizer` and `make_trainable`.
    - expanded: whether the derivatives are written in ordinary operators.
    """
    import onnx_compat.training as api

    if loss is None:
        return api.prepare_training(model, shim)
    training = api.make_trainable(
        model,
        (loss, loss_options),
        api.optimizer(optimizer, lr),
        list(trainable) or None,
        labels,
        metrics,
        "expanded" if expanded else "gradient",
    )
    return api.prepare_training(training, shim)


def _show(show: Any, progress: "Progress", epochs: int) -> None:
    """Show the progress of a training on the terminal. `show` changes the message."""
    results = ", ".join("%s %.4g" % item for item in progress.results.items() if isinstance(item[1], float))
    show("Epoch %d of %d, step %d: %s" % (progress.epoch, epochs, progress.step, results))


def _print_result(
    settings: options.Settings,
    trainer: "Trainer",
    completed: "List[Progress]",
    output: str,
    report: Optional[str],
) -> None:
    """Print the epochs of a training as a table, or as a JSON document with --json.

    `report`: the path of the page of curves; None: no page was written.
    """
    from onnx_compat.training.curve_page import epoch_table

    if settings.json:
        rows = [
            {"epoch": progress.epoch, "results": _json(progress.results), "validation": _json(progress.validation)}
            for progress in completed
        ]
        emit_json({"ok": True, "shim": trainer.shim, "output": output, "report": report, "epochs": rows})
        return
    columns, cells = epoch_table(trainer.results, completed)
    table([">" + column for column in columns], cells)
    emit("trained %s on shim %s, wrote %s" % (count_of(len(completed), "epoch"), trainer.shim, output))
    if report is not None:
        emit("wrote %s" % report)


def _json(results: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """Return results as JSON values: NaN and infinity become texts. Return None for results of None."""
    if results is None:
        return None
    pairs: List[Tuple[str, Any]] = [
        (name, number if math.isfinite(number) else str(number))
        for name, number in results.items()
        if isinstance(number, float)
    ]
    return dict(pairs)
