"""Level "charts": what Helm makes of values, and what the operator makes of what Helm made.

``make test-charts`` runs it; Helm itself is compiled on first use and kept (``dev/cluster helm`` prints where).
"""

from __future__ import annotations

import pytest
from helm import Helm, build_helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    return build_helm()
