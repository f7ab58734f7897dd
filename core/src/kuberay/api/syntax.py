"""Whether names and labels follow Kubernetes' syntax, with Kubernetes' own words where they do not.

Each function gives the list of complaints, empty when the text is fine.
"""

from __future__ import annotations

import re

_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS1123 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS1123}(\.{_DNS1123})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_DNS1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character"
)
_DNS1123_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character"
)


def dns1035_errors(text: str) -> list[str]:
    """Complaints about a DNS-1035 label of at most 63 characters."""
    return _too_long(text, 63) + _unlike(text, _DNS1035, _DNS1035_TEXT, "my-name", "abc-123")


def dns1123_errors(text: str) -> list[str]:
    """Complaints about an RFC 1123 label of at most 63 characters."""
    return _too_long(text, 63) + _unlike(text, _DNS1123, _DNS1123_TEXT, "my-name", "123-abc")


def label_key_errors(text: str) -> list[str]:
    """Complaints about a label key: a name, or a DNS subdomain, a slash and a name."""
    prefix, slash, name = text.rpartition("/")
    errors = []
    if "/" in prefix:
        return [
            "a qualified name "
            + _explain(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            found = _too_long(prefix, 253) + _unlike(prefix, _SUBDOMAIN, _SUBDOMAIN_TEXT, "example.com")
            errors += [f"prefix part {error}" for error in found]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        errors.append("name part must be no more than 63 bytes")
    if re.fullmatch(_QUALIFIED, name) is None:
        errors.append("name part " + _explain(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc"))
    return errors


def label_value_errors(text: str) -> list[str]:
    """Complaints about a label value."""
    return _too_long(text, 63) + _unlike(text, _LABEL_VALUE, _LABEL_VALUE_TEXT, "MyValue", "my_value", "12345")


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _unlike(text: str, pattern: str, explanation: str, *examples: str) -> list[str]:
    return [] if re.fullmatch(pattern, text) else [_explain(explanation, pattern, *examples)]


def _explain(explanation: str, pattern: str, *examples: str) -> str:
    listed = ",  or ".join(f"'{example}'" for example in examples)
    return f"{explanation} (e.g. {listed}, regex used for validation is '{pattern}')"
