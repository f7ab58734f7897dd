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


@pytest.mark.parametrize("text", ["", "2", "nightly", "version 2.52", "latest-2.52"])
def test_what_is_no_version(text: str) -> None:
    assert try_parse_version(text) is None
    with pytest.raises(ValueError, match="could not parse"):
        parse_version(text)


def test_order_is_numeric() -> None:
    assert parse_version("2.9.1") < parse_version("2.52") < parse_version("2.100.0")
