"""Script for the environment of a branch (`pip install onnx-compat[<branch>]`): it uses the branch in an empty folder.

python branch.py SHIM FOLDER_OF_MAKE_MODEL

The script prints its results as a line of JSON, and ends with an exception if a check fails.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path


def main(shim, examples):
    import onnx_compat

    assert Path(sysconfig.get_paths()["purelib"]) in Path(onnx_compat.__file__).parents, "it is not the installed one"
    process = subprocess.run(
        [sys.executable, "-m", "onnx_compat", "doctor", "--json"], stdout=subprocess.PIPE, check=True
    )
    doctor = json.loads(process.stdout.decode())
    chosen = [info.name for info in onnx_compat.shims() if info.selected]
    reasons = {shim_info["name"]: shim_info["reason"] for shim_info in doctor["shims"]}
    assert [doctor["selected"]] == chosen == [shim], "selected: %s; %s" % (chosen, reasons)

    sys.path.insert(0, examples)
    from make_model import make_model

    model = onnx_compat.load(make_model())
    report = onnx_compat.verify(model, oracle="reference", dims={"batch": 3})
    assert report.ok, report.summary
    from onnx_compat.discovery.selection import find

    files = []
    for name, (suffix, _) in sorted(find(shim).formats.items()):
        path = onnx_compat.convert(model, "digits" + suffix, to=name)
        report = onnx_compat.verify(model, converted=path, oracle="reference", dims={"batch": 3})
        assert report.ok, "%s: %s" % (name, report.summary)
        files.append(name)
    (info,) = [shim_info for shim_info in doctor["shims"] if shim_info["name"] == shim]
    print(json.dumps({"framework": info["framework"], "version": info["version"], "files": files, **probability()}))


def probability():
    """Return the entry of the report for tensorflow-probability, after a draw of samples. Empty: it is not installed."""
    try:
        import tensorflow_probability
    except ModuleNotFoundError as error:
        if error.name != "tensorflow_probability":
            raise
        return {}
    distribution = tensorflow_probability.distributions.Normal(loc=0.0, scale=1.0)
    assert tuple(distribution.sample(4, seed=1).shape) == (4,)
    return {"probability": tensorflow_probability.__version__}


if __name__ == "__main__":
    main(*sys.argv[1:])
