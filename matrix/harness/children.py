"""Call a function for many items in child processes, so that an item that ends its process is one failure of many."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterator, Sequence, Tuple

__all__ = ["call_in_children"]

#: Items that a process takes before a new one replaces it: frameworks keep memory of models that were dropped.
_ITEMS_OF_PROCESS = 200


def call_in_children(function: Callable[..., Any], items: Sequence[Any], *arguments: Any) -> Iterator[Tuple[Any, Any]]:
    """Yield (item, `function(item, *arguments)`) for each item, in order. One child process runs at a time.

    The second entry is the BrokenProcessPool for an item that ends its process. Any other exception of the function is
    raised.
    """
    waiting = list(items)
    while waiting:
        batch, done = waiting[:_ITEMS_OF_PROCESS], 0
        repeated = [[argument] * len(batch) for argument in arguments]
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            try:
                for result in pool.map(function, batch, *repeated):
                    done += 1
                    yield batch[done - 1], result
            except BrokenProcessPool as error:
                done += 1
                yield batch[done - 1], error
        waiting = waiting[done:]
