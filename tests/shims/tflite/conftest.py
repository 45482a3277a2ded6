"""Make the helper modules of these tests importable: with pytest's import mode `importlib`, this folder is not on
`sys.path`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
