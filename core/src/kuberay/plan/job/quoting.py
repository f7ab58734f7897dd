"""How texts are quoted for the submitter's shell, so that Ray receives them as they were written.

Source: spec rayjob.md 3.3; cases.md RJ-19 and RJ-20 for the entrypoint.
"""

from __future__ import annotations

import re
import shlex

_CONTROL = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}
_EXPANDING = frozenset("$`")
_OPERATORS = frozenset("&|;<>(){}*?[]~#!\\\n")


def double_quoted(text: str) -> str:
    """*text* in double quotes as Go's ``%q`` writes it, with ``$`` and backticks kept from the shell."""
    parts = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\' or char in _EXPANDING:
            parts.append("\\" + char)
        elif code in _CONTROL:
            parts.append(_CONTROL[code])
        elif char.isprintable():
            parts.append(char)
        elif code < 0x80:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    parts.append('"')
    return "".join(parts)


def entrypoint_arguments(entrypoint: str) -> str:
    """What follows ``ray job submit … --`` for an entrypoint.

    An entrypoint that reaches Ray unharmed stays as it is written. One that the submitter's shell would act upon
    (operators, expansions), or whose quotes would get lost, is quoted such that ``ray job submit``, which joins its
    arguments with Python's ``subprocess.list2cmdline``, hands the same program to the job.
    """
    text = entrypoint.strip()
    if _survives(text):
        return text
    arguments = _arguments(text) or _arguments(_plainer(text)) or _evaluated(text).split(" ")
    return " ".join(shlex.quote(argument) for argument in arguments)


def _survives(text: str) -> bool:
    """Whether words taken apart by the submitter's shell and joined by Ray's client are still the same words."""
    if _shell_would_act(text):
        return False
    words = shlex.split(text)
    received = joined(words)
    return not _shell_would_act(received) and shlex.split(received) == words


def _shell_would_act(text: str) -> bool:
    """Whether a shell does more with *text* than take it apart into words."""
    quote = ""
    position = 0
    while position < len(text):
        char = text[position]
        if char in _EXPANDING:
            return True
        if quote == '"' and char == "\\":
            if text[position + 1 : position + 2] != '"':
                return True
            position += 1
        elif quote:
            if char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPERATORS:
            return True
        position += 1
    return bool(quote)


def _plainer(text: str) -> str:
    """*text* with single quotes where double ones do nothing else, and single blanks between words."""
    parts = re.split(r"""('[^']*'|"(?:[^"\\]|\\.)*")""", text, flags=re.DOTALL)
    for index, part in enumerate(parts):
        if index % 2 == 0:
            parts[index] = re.sub(r"[ \t]+", " ", part)
        elif part[0] == '"' and not set(part[1:-1]) & set("$`\\'"):
            parts[index] = f"'{part[1:-1]}'"
    return "".join(parts)


def _arguments(text: str) -> list[str] | None:
    """Arguments that `joined` turns into *text*, or None when there are none."""
    arguments = []
    position = 0
    while position < len(text):
        end, argument = _next_argument(text, position)
        if end < 0:
            return None
        arguments.append(argument)
        position = end + 1
    return arguments if joined(arguments) == text else None


def _next_argument(text: str, start: int) -> tuple[int, str]:
    """The end of the argument that begins at *start* (-1 when it cannot be written), and the argument."""
    if text[start] == '"':
        match = re.compile(r'"((?:[^"\\]|\\.)*)"(?= |$)', re.DOTALL).match(text, start)
        if match is not None and " " in match[1]:
            return match.end(), match[1].replace('\\"', '"')
        return -1, ""
    space = text.find(" ", start)
    end = len(text) if space < 0 else space
    word = text[start:end]
    return (-1, "") if not word or '"' in word or "\t" in word else (end, word)


def _evaluated(text: str) -> str:
    """A line of plain words that a POSIX shell evaluates to *text*: quotes and odd blanks go as octal escapes."""
    escaped = re.sub(r"  +", lambda blanks: "\\0040" * len(blanks[0]), text.replace("\\", "\\0134"))
    for char in "\"'\t\n":
        escaped = escaped.replace(char, f"\\0{ord(char):03o}")
    return f"set -f;IFS=;eval $(printf %b 'unset IFS;set +f;{escaped}')"


def joined(arguments: list[str]) -> str:
    """One command line of *arguments*, by the rules of ``subprocess.list2cmdline`` that ``ray job submit`` follows."""
    words = []
    for argument in arguments:
        escaped = re.sub(r'(\\*)"', lambda match: match[1] * 2 + '\\"', argument)
        if not argument or " " in argument or "\t" in argument:
            trailing = len(argument) - len(argument.rstrip("\\"))
            escaped = f'"{escaped}{argument[len(argument) - trailing :]}"'
        words.append(escaped)
    return " ".join(words)
