import pytest
from kuberay.api.syntax import dns1035_errors, dns1123_errors, label_key_errors, label_value_errors


@pytest.mark.parametrize("text", ["a", "my-name", "a" * 63, "abc-123"])
def test_dns1035_accepts(text: str) -> None:
    assert dns1035_errors(text) == []


@pytest.mark.parametrize("text", ["", "1a", "a.b", "A", "a-", "a_b", "a\n"])
def test_dns1035_refuses(text: str) -> None:
    assert "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'" in dns1035_errors(text)[0]


def test_dns1123_may_begin_with_a_digit() -> None:
    assert dns1123_errors("1a") == []
    assert dns1123_errors("a_b")
    assert dns1123_errors("a" * 64) == ["must be no more than 63 bytes"]


@pytest.mark.parametrize("text", ["team", "ray.io/market-type", "A_b.c", "a" * 63, "x" * 60 + ".io/k"])
def test_label_keys_accepted(text: str) -> None:
    assert label_key_errors(text) == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("not a key!", "name part must consist of"),
        ("", "name part must be non-empty"),
        ("/name", "prefix part must be non-empty"),
        ("Team/name", "prefix part a lowercase RFC 1123 subdomain"),
        ("a/b/c", "with an optional DNS subdomain prefix"),
        ("k" * 64, "name part must be no more than 63 bytes"),
    ],
)
def test_label_keys_refused(text: str, part: str) -> None:
    assert any(part in error for error in label_key_errors(text))


def test_label_values() -> None:
    assert label_value_errors("") == []
    assert label_value_errors("us-west_1.b") == []
    assert "a valid label must be" in label_value_errors("-x")[0]
    assert label_value_errors("v" * 64) == ["must be no more than 63 bytes"]
