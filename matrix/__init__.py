"""Every framework/Python/opset combination as data (matrix.toml), and what is rendered, resolved and fetched from it."""
