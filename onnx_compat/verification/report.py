"""What a verification found, for a person (`str(report)`) and for a machine (`report.to_json()`)."""

import json
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from onnx_compat.verification.accuracy import EQUAL, told
from onnx_compat.verification.compare import Comparison
from onnx_compat.verification.layers import Layers

__all__ = ["Fed", "Report"]


class Fed(NamedTuple):
    """An input as it was fed."""

    name: str
    dtype: str
    shape: Tuple[int, ...]


class Report(NamedTuple):
    """The result of a verification.

    Attributes:
        model: The path of the model, or the name of its graph.
        subject: What was compared: "shim tflite", "model.tflite on shim tflite".
        oracle: What it was compared with: "onnxruntime 1.31.1", "shim reference".
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        seed: The seed of the generated inputs; None if they were given.
        inputs: The name, dtype and shape of each input.
        outputs: The comparison of each output.
        notes: Remarks on the verdict, such as why onnxruntime was not the oracle.
        layers: The comparison of every node, if it was asked for.
        fallbacks: The nodes that ran outside the framework, with the reason.
        fidelity: The least signal-to-noise ratio in dB, if a quantised file is judged by its accuracy.

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
    inputs: List[Fed]
    outputs: List[Comparison]
    notes: List[str]
    layers: Optional[Layers] = None
    fallbacks: Mapping[str, str] = {}
    fidelity: Optional[float] = None

    @property
    def ok(self) -> bool:
        """Whether every output agrees."""
        return bool(self.outputs) and all(output.ok for output in self.outputs)

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        failed = [output for output in self.outputs if not output.ok]
        counts = "%d of %d outputs" % (len(failed) or len(self.outputs), len(self.outputs))
        verb = "agree" if self.ok else "differ"
        within = "within atol %g + rtol %g * |expected|" % (self.atol, self.rtol)
        if self.fidelity is not None:
            within = "to an SNR of %g dB, the default of how it is quantised" % self.fidelity
            if any(output.accuracy is not None and output.accuracy.equal is not None for output in self.outputs):
                within += ", or in %g %% of the elements that are not floats" % (100 * EQUAL)
        return "%s: %s of %s and %s %s %s" % (
            "OK" if self.ok else "FAILED", counts, self.subject, self.oracle, verb, within,
        )  # fmt: skip

    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON values. A number that JSON has no way to write is the string "inf", "-inf" or "nan"."""
        rest = {key: value for key, value in self._asdict().items() if key not in ("inputs", "outputs", "layers")}
        return {
            "ok": self.ok,
            "summary": self.summary,
            "inputs": [_plain(fed._asdict()) for fed in self.inputs],
            "outputs": [_output(output) for output in self.outputs],
            **_plain(dict(rest)),
            "layers": None if self.layers is None else _layers(self.layers),
        }

    def to_json(self, indent: Optional[int] = 2) -> str:
        """The same as a JSON document."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def __str__(self) -> str:
        lines = [self.summary]
        lines += ["  " + self.layers.verdict] if self.layers is not None else []
        lines += ["  %s %s%s: %s" % (out.name, out.dtype, list(out.shape), explain(out)) for out in self.outputs]
        return "\n".join(lines + ["  note: " + note for note in self.notes])


def explain(output: Comparison) -> str:
    """Why one output got its verdict."""
    if output.verdict in ("dtype", "shape", "kind"):
        expected = "%s%s" % (output.expected_dtype, list(output.expected_shape))
        return "wrong %s, expected %s" % (output.verdict, expected)
    errors = ""
    if output.max_abs_error is not None and output.max_rel_error is not None:
        errors = ", max abs error %.3g, max rel error %.3g" % (output.max_abs_error, output.max_rel_error)
    if output.accuracy is not None:
        return "%s, %s" % (output.verdict, told(output.accuracy)) + errors
    if output.ok:
        return "match" + errors
    where = "[%s]" % ", ".join(map(str, output.first_bad_index or ()))
    return "%d of %d elements differ, first at %s: %s, expected %s%s" % (
        output.mismatched, output.size, where, output.got, output.expected, errors,
    )  # fmt: skip


def _layers(found: Layers) -> Dict[str, Any]:
    def compared(one: Optional[Comparison]) -> Any:
        return None if one is None else _output(one)

    return {
        "ok": found.ok,
        "verdict": found.verdict,
        "culprit": found.culprit,
        "notes": found.notes,
        "layers": [
            dict(_plain(one._asdict()), comparison=compared(one.comparison), alone=compared(one.alone))
            for one in found.layers
        ],
        "gone": [dict(one._asdict()) for one in found.gone],
    }


def _output(output: Comparison) -> Dict[str, Any]:
    fields = _plain(dict(output._asdict(), ok=output.ok))
    return dict(fields, accuracy=None if output.accuracy is None else output.accuracy.to_dict())


def _plain(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in fields.items()
    }
