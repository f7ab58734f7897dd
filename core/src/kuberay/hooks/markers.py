"""The pluggy markers: `hookimpl` for plugins, `hookspec` for `kuberay.hooks.spec` only."""

from __future__ import annotations

import pluggy

PROJECT = "kuberay"
"""Name of the pluggy project; the entry point group is ``kuberay.plugins``."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
