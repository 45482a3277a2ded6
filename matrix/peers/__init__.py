"""Peers: other projects that run the same recorded cases, judged by the same comparison.

Each is a row of the scoreboard.

A peer runs in an environment of its own (`[peers.*]` of matrix.toml): `nox -s "peer(onnxruntime)"`.
"""
