"""Fuzzer of damaged inputs: files and models that are changed at random must give typed errors, in time.

| module | content |
|---|---|
| `corruption` | changes of bytes, and of the members of archives |
| `model_changes` | changes of an ONNX model and of its feeds that keep the model readable |
| `tflite_changes` | changes of a .tflite file that keep the flatbuffer readable |
| `kinds` | what is damaged and what is called: a table of kinds |
| `coverage` | the lines of this library that an input is the first to reach |
| `child/` | the process in the environment of a cell that runs the inputs, also on Python 3.7 |
| `campaign` | counts of outcomes, and the inputs that failed |

`python -m matrix.fuzz --damage KIND` runs a campaign. An input depends on the seed, and on the inputs before it in the
same process: inputs that reach new lines join the corpus. So the bytes of each failure are stored.
"""
