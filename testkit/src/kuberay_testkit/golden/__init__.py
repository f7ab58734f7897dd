"""Golden cases: what KubeRay really makes of a manifest, and how to compare another operator's outcome with it.

`load_case` reads one, `normalise` brings an `Outcome` into the form of the recording, `differences` tells what is not equal.
"""

from kuberay_testkit.golden.case import DELETE_ANNOTATION, RAY_KINDS, GoldenCase, Manifest, load_case, main_key
from kuberay_testkit.golden.comparison import differences
from kuberay_testkit.golden.outcome import (
    ADDED_CONDITIONS,
    ADDED_STATUS,
    COPIED_STATUS,
    GENERATION,
    Outcome,
    canonical,
    normalise,
)

__all__ = [
    "ADDED_CONDITIONS",
    "ADDED_STATUS",
    "COPIED_STATUS",
    "DELETE_ANNOTATION",
    "GENERATION",
    "RAY_KINDS",
    "GoldenCase",
    "Manifest",
    "Outcome",
    "canonical",
    "differences",
    "load_case",
    "main_key",
    "normalise",
]
