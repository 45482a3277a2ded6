"""Differential fuzzer: random valid graphs, computed by an oracle and by a shim, compared, and shrunk where they differ.

| module | content |
|---|---|
| `graphs`, `document`, `chunks` | a graph and a case as data, as JSON, and as files of many cases; also on Python 3.7 |
| `values`, `draft`, `draw`, `evaluation`, `templates/` | the generator: a seed gives a case |
| `execution`, `child/` | the side of the shim: it runs a case in the environment of a cell, also on Python 3.7 |
| `worker`, `campaign`, `ledger` | the side of the session: processes, time limits, counts, the seeds of all runs |
| `oracle`, `shrink`, `reductions` | onnxruntime and the ReferenceEvaluator; the search for a smaller case |

`python -m matrix.fuzz --help` has the options; docs/matrix.md has the rules.
"""
