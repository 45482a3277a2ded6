"""Make the helper modules in this folder importable, and random tests repeatable.

With pytest's import mode `importlib`, the folder is not on `sys.path`.
"""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# The examples follow from the test alone, not from a seed or a database; a busy machine makes no test fail.
settings.register_profile(
    "core", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("core")
