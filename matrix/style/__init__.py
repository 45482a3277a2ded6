"""The style check: names, docstrings, comments and commit subjects against the rules of docs/glossary.md and CONTRIBUTING.

python -m matrix.style                       check every tracked Python file
python -m matrix.style onnx_compat/ir        check these files or folders
python -m matrix.style --commit-msg FILE     check the subject of a commit message
"""
