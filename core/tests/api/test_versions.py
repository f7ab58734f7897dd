import re

import pytest
from kuberay.api.versions import Version, parse_version, try_parse_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.52", Version(2, 52, 0)),
        ("2.52.0", Version(2, 52, 0)),
        ("v2.52.1", Version(2, 52, 1)),
        ("2.52.1-py311-gpu", Version(2, 52, 1)),
        ("2.9.0rc1", Version(2, 9, 0)),
        ("3.0.0.dev0", Version(3, 0, 0)),
    ],
)
def test_lenient_parse(text: str, expected: Version) -> None:
    assert parse_version(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'could not parse "" as version'),
        ("nightly", 'could not parse "nightly" as version'),
        ("version 2.52", 'could not parse "version 2.52" as version'),
        ("latest-2.52", 'could not parse "latest-2.52" as version'),
        ("2", 'illegal version string "2"'),
        ("2.", 'illegal version string "2."'),
        ("02.52.0", 'illegal zero-prefixed version component "02" in "02.52.0"'),
    ],
)
def test_what_is_no_version(text: str, words: str) -> None:
    """In Kubernetes' words, which KubeRay's messages end with."""
    assert try_parse_version(text) is None
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        parse_version(text)


def test_order_is_numeric() -> None:
    assert parse_version("2.9.1") < parse_version("2.52") < parse_version("2.100.0")
