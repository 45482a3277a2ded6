"""The cause in the messages of TensorFlow 1.15 to 2.21, as they were seen, in one line with the operation."""

import pytest
from onnx_compat_tensorflow.run_errors import message_text

#: TensorFlow 2.13 and later.
NEW = """Graph execution error:

Detected at node g1/GatherV2 defined at (most recent call last):
  File "model.py", line 7, in <module>

  File "emission.py", line 87, in emit

indices[0] = 7 is not in [0, 2)
\t [[{{node g1/GatherV2}}]] [Op:__inference_run_39]"""
#: TensorFlow 2.6 to 2.12: the lines of code are indented.
MIDDLE = """Graph execution error:

Detected at node 'g1/GatherV2' defined at (most recent call last):
    File "model.py", line 7, in <module>
      runnable.run(feeds)
Node: 'g1/GatherV2'
indices[0] = 7 is not in [0, 2)
\t [[{{node g1/GatherV2}}]] [Op:__inference_run_39]"""
OLD = """indices[0] = 7 is not in [0, 2)
\t [[node g1/GatherV2 (defined at model.py:7) ]]"""
SEVERAL = """Graph execution error:

2 root error(s) found.
  (0) INVALID_ARGUMENT:  indices[0] = 7 is not in [0, 2)
\t [[{{node g1/GatherV2}}]]
\t [[{{node z}}]]
  (1) INVALID_ARGUMENT:  indices[0] = 8 is not in [0, 2)
\t [[{{node g2/GatherV2}}]]
0 successful operations.
0 derived errors ignored. [Op:__inference_run_39]"""


@pytest.mark.parametrize("message", [NEW, MIDDLE, OLD, SEVERAL], ids=["new", "middle", "old", "several"])
def test_the_cause_and_the_operation(message: str) -> None:
    assert message_text(message) == "indices[0] = 7 is not in [0, 2) (operation 'g1/GatherV2')"


def test_an_eager_operation_has_no_node() -> None:
    message = (
        "{{function_node __wrapped__AddV2_device_/job:localhost/device:CPU:0}} Incompatible shapes [Op:AddV2] name: "
    )
    assert message_text(message) == "Incompatible shapes"


@pytest.mark.parametrize(("message", "text"), [("", ""), ("Graph execution error:", "Graph execution error:")])
def test_a_message_without_a_cause(message: str, text: str) -> None:
    assert message_text(message) == text
