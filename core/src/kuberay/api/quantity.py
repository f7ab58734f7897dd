"""How Kubernetes quantities (``500m``, ``4Gi``, ``1e3``) are read, added and written in canonical form.

Values are kept as whole numbers of 10⁻⁹, the finest step Kubernetes knows; finer ones round away from zero, as there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

Format = Literal["", "DecimalSI", "BinarySI", "DecimalExponent"]

_NANO = 10**9
_CAP = (2**63 - 1) * _NANO
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([A-Za-z]*[-+]?[0-9]*)")


def parse(value: str | int | float | Fraction) -> Fraction:
    """The exact value. Raises ValueError with one sentence when it is no quantity."""
    return Fraction(_read(value)[0], _NANO)


def canonical(value: str | int | float | Fraction, suffix_like: str | int | float | None = None) -> str:
    """*value* as Kubernetes writes it: ``1000m`` → ``1``, ``4096Mi`` → ``4Gi``, ``0.5`` → ``500m``.

    The kind of suffix (binary, decimal, exponent) is that of *suffix_like* when given, else that of *value* itself.
    """
    nanos, form = _read(value)
    if suffix_like is not None:
        form = _read(suffix_like)[1]
    return _write(nanos, form)


def add_all(values: Iterable[str | int | float]) -> str:
    """The sum in canonical form; the suffix kind is that of the first value that is not zero. No values: ``0``."""
    total = 0
    form: Format = ""
    for value in values:
        nanos, value_form = _read(value)
        if total == 0:
            form = value_form
        total += nanos
    return _write(total, form)


def multiply(value: str | int | float, factor: int) -> str:
    """*value* times a whole number, in canonical form with the same suffix kind."""
    nanos, form = _read(value)
    return _write(nanos * factor, form)


def ceil_int(value: str | int | float | Fraction) -> int:
    """The value rounded away from zero to a whole number, as ``Quantity.Value()`` gives it."""
    nanos = _read(value)[0]
    return -(-nanos // _NANO) if nanos >= 0 else nanos // _NANO


def ceil_milli(value: str | int | float | Fraction) -> int:
    """The value in thousandths rounded away from zero, as ``Quantity.MilliValue()`` gives it."""
    nanos = _read(value)[0]
    return -(-nanos // 10**6) if nanos >= 0 else nanos // 10**6


def to_float(value: str | int | float | Fraction) -> float:
    """The nearest floating point number."""
    return _read(value)[0] / _NANO


def _read(value: str | int | float | Fraction) -> tuple[int, Format]:
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, Fraction):
        return _round_away(value * _NANO), "DecimalSI"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a quantity must be a string or a number, not {type(value).__name__}")
    return _read_text(str(value))


@lru_cache(maxsize=4096)
def _read_text(text: str) -> tuple[int, Format]:
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise _malformed(text)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    number = Fraction(int((whole + fraction) or "0"), 10 ** len(fraction))
    form: Format
    if suffix in _DECIMAL:
        form, number = "DecimalSI", number * Fraction(10) ** _DECIMAL[suffix]
    elif suffix in _BINARY:
        form, number = "BinarySI", number * 2 ** _BINARY[suffix]
    elif re.fullmatch(r"[eE][+-]?[0-9]{1,3}", suffix):
        form, number = "DecimalExponent", number * Fraction(10) ** int(suffix[1:])
    else:
        raise _malformed(text)
    if form == "BinarySI" and 0 < number < 1:
        form = "DecimalSI"
    nanos = min(_round_away(number * _NANO), _CAP)
    return (-nanos if sign == "-" else nanos), form


def _malformed(text: str) -> ValueError:
    return ValueError(f"{text!r} is no quantity: write a number with an optional suffix such as m, k, M, G, Ki, Mi, Gi")


def _round_away(number: Fraction) -> int:
    whole, rest = divmod(abs(number.numerator), number.denominator)
    rounded = whole + (1 if rest else 0)
    return rounded if number >= 0 else -rounded


def _write(nanos: int, form: Format) -> str:
    if nanos == 0:
        return "0"
    sign, size = ("-", -nanos) if nanos < 0 else ("", nanos)
    if form == "BinarySI" and size >= 1024 * _NANO and size % _NANO == 0:
        number, step = size // _NANO, 0
        while number % 1024 == 0 and step < len(_BINARY_SUFFIX) - 1:
            number, step = number // 1024, step + 1
        return f"{sign}{number}{_BINARY_SUFFIX[step]}"
    number, exponent = size, -9
    while number % 1000 == 0 and exponent < 18:
        number, exponent = number // 1000, exponent + 3
    if form == "DecimalExponent":
        return f"{sign}{number}e{exponent}" if exponent else f"{sign}{number}"
    return f"{sign}{number}{_DECIMAL_SUFFIX[exponent]}"
