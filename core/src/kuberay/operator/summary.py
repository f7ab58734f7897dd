"""What an operator holds and what waits in it, in numbers: for whoever asks the profiling listener. No names of objects."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from kuberay.operator.app import App


def summarize(app: App) -> dict[str, Any]:
    """Plain data. Ages are in seconds."""
    now = asyncio.get_running_loop().time()
    queue = app.controller.queue
    kinds = sorted({informer.scope.kind for informer in app.informers}, key=str)
    return {
        "leading": app.leading,
        "store": {str(kind): app.store.count(kind) for kind in kinds},
        "queue": {
            "ready": len(queue),
            "delayed": queue.delayed,
            "handled": queue.processing,
            "failing": queue.failing,
        },
        "probes": dict(Counter(type(probe).__name__ for probe, _ in app.controller.prober.running())),
        "lists": {
            str(informer.scope): None if informer.last_list is None else round(now - informer.last_list, 1)
            for informer in app.informers
        },
        "events": {"dropped": app.recorder.dropped},
        "tasks": len(asyncio.all_tasks()),
        "threads": dict(Counter(thread.name for thread in threading.enumerate())),
    }
