"""The init container's own command installs a plugin, and the operator with the pod's environment finds it.

The volumes are folders here, and a folder of wheels stands for the package index.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from helm import OPERATOR, Helm, container, of_kind

METADATA = "Metadata-Version: 2.1\nName: kuberay-acme\nVersion: 1.2.0\nRequires-Dist: kuberay-core\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
CODE = '"""A plugin."""\n\nkuberay_hook_api = (1, 0)\n'


def wheel(folder: Path) -> Path:
    """A plugin with the entry point ``acme`` and a dependency that is nowhere to be had."""
    files = {
        "kuberay_acme.py": CODE,
        "kuberay_acme-1.2.0.dist-info/METADATA": METADATA,
        "kuberay_acme-1.2.0.dist-info/WHEEL": WHEEL,
        "kuberay_acme-1.2.0.dist-info/entry_points.txt": "[kuberay.plugins]\nacme = kuberay_acme\n",
    }
    path = folder / "kuberay_acme-1.2.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in (*files, "kuberay_acme-1.2.0.dist-info/RECORD"))
        archive.writestr("kuberay_acme-1.2.0.dist-info/RECORD", record)
    return path


def python_with_pip() -> str:
    for python in (f"{sys.base_prefix}/bin/python3", "/usr/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return python
    pytest.fail("no Python with pip: apt-get install python3-pip")


@pytest.mark.parametrize("right", [True, False], ids=["the file that was meant", "another file"])
def test_a_pinned_plugin_is_installed_and_found(helm: Helm, tmp_path: Path, right: bool) -> None:
    path = wheel(tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if right else "0" * 64
    extra = {"name": "acme", "requirements": [f"kuberay-acme==1.2.0 --hash=sha256:{digest}"]}
    made = helm.template(OPERATOR, {"plugins": {"extra": [extra]}, "pluginInstaller": {"indexUrl": tmp_path.as_uri()}})
    (deployment,) = of_kind(made, "Deployment")
    (installer,) = deployment["spec"]["template"]["spec"]["initContainers"]
    (lines,) = [one["data"]["requirements.txt"] for one in of_kind(made, "ConfigMap")]
    (tmp_path / "requirements.txt").write_text(lines)
    places = {
        "/plugins": str(tmp_path / "plugins"),
        "/etc/kuberay-plugins/requirements.txt": str(tmp_path / "requirements.txt"),
    }

    def here(word: str) -> str:
        flag, equals, value = word.rpartition("=")
        return f"{flag}{equals}{places.get(value, value)}"

    command = [python_with_pip(), *map(here, installer["command"][1:])]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if not right:
        assert done.returncode != 0
        assert "HASH" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    # Nothing else may lie there: it would come before what the operator's image has.
    installed = {path.name for path in (tmp_path / "plugins").iterdir()} - {"__pycache__"}
    assert installed == {"kuberay_acme.py", "kuberay_acme-1.2.0.dist-info"}
    variables = {one["name"]: here(one["value"]) for one in container(made)["env"] if "value" in one}
    (names,) = [w for w in container(made)["args"] if w.startswith("--plugins=")]
    listed = subprocess.run(
        [sys.executable, "-m", "kuberay.cli.main", "plugins", names],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert "kuberay-acme 1.2.0" in " ".join(listed.stdout.split())
