"""The result of a verification, as text (`str(report)`) and as JSON (`report.to_json()`)."""

import json
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from onnx_compat.verification.accuracy import EQUAL, format_accuracy
from onnx_compat.verification.compare import WRONG_TYPE, Comparison, format_verdict
from onnx_compat.verification.layers import Layers

__all__ = ["FedInput", "Report"]


class FedInput(NamedTuple):
    """The name, the dtype and the shape of an input that was fed."""

    name: str
    dtype: str
    shape: Tuple[int, ...]


class Report(NamedTuple):
    """The result of a verification.

    Attributes:
        model: The path of the model, or the name of its graph.
        subject: The shim or file that was compared: "shim tflite", "model.tflite on shim tflite".
        oracle: The runtime that computed the expected outputs: "onnxruntime 1.31.1", "shim reference".
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        seed: The seed of the generated inputs; None if they were given.
        inputs: The name, dtype and shape of each input.
        outputs: The comparison of each output; for a sequence, a comparison of each element.
        notes: Remarks on the verdict, such as why onnxruntime was not the oracle.
        layers: The comparison of every node; None if it was not requested.
        fallbacks: A dict from the name of each node that ran outside the framework to the reason.
        fidelity: The lowest accepted signal-to-noise ratio in dB, if the accuracy decides: for a quantised file, and
            for a model that quantises as it runs. None if the tolerance decides.
        scheme: The kind of quantisation of a quantised file: "int8". None for any other subject.
        oracle_optimised: Whether onnxruntime optimised the model. None if a shim was the oracle.
        oracle_spread: The signal-to-noise ratio in dB between the results of onnxruntime without and with optimisation.
            None if it was not measured.

    Examples:
        >>> report = onnx_compat.verify("digits.onnx", shim="reference", oracle="reference")
        >>> report.ok, report.outputs[0].verdict
        (True, 'match')
    """

    model: str
    subject: str
    oracle: str
    rtol: float
    atol: float
    seed: Optional[int]
    inputs: List[FedInput]
    outputs: List[Comparison]
    notes: List[str]
    layers: Optional[Layers] = None
    fallbacks: Mapping[str, str] = {}
    fidelity: Optional[float] = None
    scheme: Optional[str] = None
    oracle_optimised: Optional[bool] = None
    oracle_spread: Optional[float] = None

    @property
    def ok(self) -> bool:
        """Return whether every output agrees. False without outputs."""
        return bool(self.outputs) and all(output.ok for output in self.outputs)

    @property
    def summary(self) -> str:
        """Return one line of text: the verdict, how many outputs agree or differ, the subject, oracle and criterion."""
        failed = [output for output in self.outputs if not output.ok]
        counts = "%d of %d outputs" % (len(failed) or len(self.outputs), len(self.outputs))
        verb = "agree" if self.ok else "differ"
        return "%s: %s of %s and %s %s%s" % (
            self._outcome(), counts, self.subject, self.oracle_name, verb, self._criterion(failed),
        )  # fmt: skip

    @property
    def oracle_name(self) -> str:
        """Return the name of the oracle: "onnxruntime 1.31.1", "onnxruntime 1.31.1 without optimisation"."""
        return self.oracle + (" without optimisation" if self.oracle_optimised is False else "")

    def _outcome(self) -> str:
        """Return "OK" if the report is OK, else "FAILED".

        If the report is OK and the layers have a culprit, return "OK, but the node '…' departs … (see the layers)".
        """
        if not self.ok or self.layers is None or self.layers.culprit is None:
            return "OK" if self.ok else "FAILED"
        culprit = self.layers.culprit
        was_alone = any(layer.node == culprit and layer.alone is not None for layer in self.layers.layers)
        return "OK, but the node '%s' departs%s (see the layers)" % (culprit, " by itself" if was_alone else "")

    def _criterion(self, failed: List[Comparison]) -> str:
        """Format the criterion of the verdict for the summary. `failed`: the outputs that do not agree.

        - The report is OK and every output is an empty tensor: nothing but dtypes and shapes was compared.
        - `fidelity` is None: the tolerance.
        - Otherwise: the lowest SNR and the lowest share of equal elements, each with its limit, over the outputs in
          `failed`. If `failed` is empty, over the outputs with an element beyond the tolerance; if no output has such
          an element, over all outputs. The text is empty if no accuracy was measured.
        """
        if self.ok and all(_is_empty(output) for output in self.outputs):
            return ": the outputs have no elements: nothing was compared but dtypes and shapes"
        if self.fidelity is None:
            return " within atol %g + rtol %g * |expected|" % (self.atol, self.rtol)
        decisive = failed or [output for output in self.outputs if output.mismatched] or self.outputs
        accuracies = [output.accuracy for output in decisive if output.accuracy is not None]
        ratios = [accuracy.snr for accuracy in accuracies if accuracy.snr is not None]
        shares = [accuracy.equal for accuracy in accuracies if accuracy.equal is not None]
        relation = "below" if failed else "at least"
        texts = []
        if ratios:
            texts.append("SNR %.1f dB, %s %g dB" % (min(ratios), relation, self.fidelity))
        if shares:
            texts.append("%.1f %% of the elements equal, %s %g %%" % (100 * min(shares), relation, 100 * EQUAL))
        return ": " + "; ".join(texts) if texts else ""

    def to_dict(self) -> Dict[str, Any]:
        """Return the report as JSON values.

        A number that JSON cannot represent is the string "inf", "-inf" or "nan".
        """
        rest = {key: value for key, value in self._asdict().items() if key not in ("inputs", "outputs", "layers")}
        return {
            "ok": self.ok,
            "summary": self.summary,
            "inputs": [_replace_non_finite(fed._asdict()) for fed in self.inputs],
            "outputs": [_output_to_dict(output) for output in self.outputs],
            **_replace_non_finite(dict(rest)),
            "layers": None if self.layers is None else _layers_to_dict(self.layers),
        }

    def to_json(self, indent: Optional[int] = 2) -> str:
        """Return the report as a JSON document. `indent`: the spaces of a level; None: a single line."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def __str__(self) -> str:
        lines = [self.summary]
        lines += ["  " + self.layers.verdict] if self.layers is not None else []
        lines += ["  %s %s%s: %s" % (out.name, out.dtype, list(out.shape), explain(out)) for out in self.outputs]
        return "\n".join(lines + ["  note: " + note for note in self.notes])


def _is_empty(output: Comparison) -> bool:
    """Return whether an output is a tensor without elements."""
    return output.expected_dtype not in ("sequence", "none") and 0 in output.expected_shape


def explain(output: Comparison) -> str:
    """Return the verdict on an output as text.

    - The dtype, shape or kind is wrong: `wrong shape float32[3], expected float32[2, 3]`.
    - The output has an accuracy: the verdict and the figures of `format_accuracy`.
    - The output agrees: `match`.
    - Otherwise: `2 of 10 elements differ, first at [3]: 1.0, expected 1.5`.

    The last three end with the largest absolute and relative error, if both are defined.
    """
    if output.verdict in WRONG_TYPE:
        expected = "%s%s" % (output.expected_dtype, list(output.expected_shape))
        return "%s %s%s, expected %s" % (format_verdict(output), output.dtype, list(output.shape), expected)
    errors = ""
    if output.max_abs_error is not None and output.max_rel_error is not None:
        errors = ", max abs error %.3g, max rel error %.3g" % (output.max_abs_error, output.max_rel_error)
    if output.accuracy is not None:
        return "%s, %s" % (output.verdict, format_accuracy(output.accuracy)) + errors
    if output.ok:
        return "match" + errors
    where = "[%s]" % ", ".join(map(str, output.first_bad_index or ()))
    return "%d of %d elements differ, first at %s: %s, expected %s%s" % (
        output.mismatched, output.size, where, output.got, output.expected, errors,
    )  # fmt: skip


def _layers_to_dict(layers: Layers) -> Dict[str, Any]:
    """Return the comparison of every node as a dict of JSON values."""
    return {
        "ok": layers.ok,
        "verdict": layers.verdict,
        "culprit": layers.culprit,
        "notes": layers.notes,
        "layers": [
            dict(
                _replace_non_finite(layer._asdict()),
                comparison=_output_to_dict(layer.comparison),
                alone=None if layer.alone is None else _output_to_dict(layer.alone),
            )
            for layer in layers.layers
        ],
        "gone": [dict(gone._asdict()) for gone in layers.gone],
    }


def _output_to_dict(output: Comparison) -> Dict[str, Any]:
    """Return a comparison of an output as a dict of JSON values."""
    fields = _replace_non_finite(dict(output._asdict(), ok=output.ok))
    return dict(fields, accuracy=None if output.accuracy is None else output.accuracy.to_dict())


def _replace_non_finite(fields: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a copy of the fields in which "inf", "-inf" and "nan" replace the numbers that JSON lacks.

    Numbers inside of lists and dicts are not replaced.
    """
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in fields.items()
    }
