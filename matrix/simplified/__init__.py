"""Simplified models: the number of nodes, the latency and the outputs after this project and after its peers.

`nox -s simplify` runs it in an environment that has onnxsim, onnxslim and onnxruntime.
"""
