"""Other projects on the same recorded cases, judged by the same comparison; each is a row of the scoreboard.

A peer is measured inside its own environment (`[peers.*]` of matrix.toml): `nox -s "peer(onnxruntime)"`.
"""
