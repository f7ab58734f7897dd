"""The answers of a plugin in another process with another hash seed, for the same story.

``python -m kuberay_testkit.conformance.elsewhere FILE CLASS`` tells the story and prints them; `answers_elsewhere` runs that.
"""

from __future__ import annotations

import base64
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

HASH_SEED = "4711"
_SECONDS = 300

Answers = dict[tuple[str, bytes], bytes]


def answers_elsewhere(suite: type[Any]) -> Answers:
    """By hook and question. Raises ``AssertionError`` when *suite* cannot be found there, or fails."""
    assert "<locals>" not in suite.__qualname__, (
        f"{suite.__qualname__} is no class of a module: another process cannot find it"
    )
    seed = "0" if os.environ.get("PYTHONHASHSEED") == HASH_SEED else HASH_SEED
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
    }
    command = [sys.executable, "-m", __name__, inspect.getfile(suite), suite.__qualname__]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
    assert done.returncode == 0, f"the story failed in another process:\n{done.stderr.decode()[-3000:]}"
    return {
        (hook, base64.b64decode(question)): base64.b64decode(answer)
        for hook, question, answer in orjson.loads(done.stdout)
    }


def main(file: str, name: str) -> None:
    """Tell the story of the suite *name* in *file*."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    suite: Any = module
    for part in name.split("."):
        suite = getattr(suite, part)
    found = suite().tour().watch.answers()
    told = [
        (hook, base64.b64encode(asked).decode(), base64.b64encode(answer).decode())
        for (hook, asked), answer in found.items()
    ]
    sys.stdout.buffer.write(orjson.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
