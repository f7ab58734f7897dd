"""Which JSON pointers tell what changed."""

from __future__ import annotations

import pytest
from kuberay.plugins.diff import changed_paths

A, B, C = {"name": "a"}, {"name": "b"}, {"name": "c"}


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"x": 1}, {"x": 1}, []),
        ({"x": 1}, {"x": 2}, ["/x"]),
        ({"x": 1}, {"x": True}, ["/x"]),
        ({"x": 1}, {"x": "1"}, ["/x"]),
        ({}, {"x": {"y": 1}}, ["/x"]),
        ({"x": 1, "y": 2}, {"y": 2}, ["/x"]),
        ({"m": {"a/b~c": "1"}}, {"m": {"a/b~c": "2"}}, ["/m/a~1b~0c"]),
        ({"l": [1, 2]}, {"l": [1, 3, 4]}, ["/l/1", "/l/2"]),
        ({"l": [1, 2]}, {"l": [1]}, ["/l/1"]),
        ({"l": [A, B]}, {"l": [C, A, B]}, ["/l/0"]),
        ({"l": [A, B]}, {"l": [B]}, ["/l/0"]),
        ({"l": [A, B]}, {"l": [B, A]}, ["/l"]),
        ({"l": [A]}, {"l": [{"name": "a", "value": "1"}]}, ["/l/0/value"]),
        ({"l": [A, A]}, {"l": [A, A, A]}, ["/l/2"]),
        (
            {"l": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/y"}]},
            {
                "l": [
                    {"name": "v", "mountPath": "/z"},
                    {"name": "v", "mountPath": "/x"},
                    {"name": "v", "mountPath": "/y"},
                ]
            },
            ["/l/0"],
        ),
        ({"x": {}}, {"x": []}, ["/x"]),
        ([], {}, ["/"]),
    ],
)
def test_changed_paths(before, after, paths):
    assert changed_paths(before, after) == paths
