"""What the process asks of its system before anything else."""

from __future__ import annotations

import resource

from kuberay.operator.start import open_as_many_files_as_allowed


def test_the_soft_limit_of_open_files_is_lifted() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 512), hard))
        open_as_many_files_as_allowed()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
