"""The plans of a Runnable, of which those used last are kept (LRU)."""

import threading
from typing import Any, Dict, Hashable

__all__ = ["MOST_PLANS", "PlanCache"]

#: The most plans that a Runnable keeps: a plan may hold a copy of the weights, and what the framework compiled.
MOST_PLANS = 32


class PlanCache(Dict[Hashable, Any]):
    """A dict of at most `MOST_PLANS` plans: a least-recently-used (LRU) cache.

    `get` and `cache[key] = plan` make a plan the newest. A plan above `MOST_PLANS` drops the oldest. Several threads
    may call these two operations at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return the plan of a key, or `default`. The plan becomes the newest."""
        with self._lock:
            if key not in self:
                return default
            plan = self.pop(key)
            super().__setitem__(key, plan)
            return plan

    def __setitem__(self, key: Hashable, plan: Any) -> None:
        with self._lock:
            self.pop(key, None)
            super().__setitem__(key, plan)
            while len(self) > MOST_PLANS:
                del self[next(iter(self))]
