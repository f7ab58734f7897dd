"""What docs/install.md tells somebody to type, typed: the installation with few rights, and the base for kustomize."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml
from helm import build_helm
from installed import Release, kubeconfig_of, kubectl, may, ray_cluster, ready
from kube_world import Operator, World
from kuberay.kube.client import Client
from shown import ROOT, blocks, commands, section

IMAGE, DIGEST = "registry.example.com/kuberay-operator", "sha256:" + "0" * 64
SYSTEM, TEAM = "kuberay-system", "team-a"


def typed(line: str, kubeconfig: str | Path) -> str:
    """What a command line says, run in the project's folder as somebody would. Raises AssertionError when it fails."""
    binaries = (build_helm().binary.parent, Path(sys.executable).parent)
    path = os.pathsep.join([*map(str, binaries), os.environ["PATH"]])
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}
    shell = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(shell, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


async def test_with_few_rights(client: Client, operators: Operator, tmp_path: Path) -> None:
    """An administrator makes CRDs, account and roles; whoever has the role "edit" in one namespace does the rest."""
    operators.stop()
    shown = commands(section("install.md", "With few rights"))
    assert [comment for _, comment in shown] == ["administrator", "administrator", ""]
    async with World.create(client, TEAM) as team:
        release = Release(build_helm(), TEAM, tmp_path)
        kubectl("create", "serviceaccount", "dev", "-n", TEAM)
        kubectl("create", "rolebinding", "dev", "--clusterrole=edit", f"--serviceaccount={TEAM}:dev", "-n", TEAM)
        dev = f"system:serviceaccount:{TEAM}:dev"
        assert not may(dev, "create", "roles.rbac.authorization.k8s.io", TEAM)
        accounts = {"administrator": os.environ["KUBECONFIG"], "": kubeconfig_of("dev", TEAM, tmp_path)}
        try:
            for line, comment in shown:
                typed(line, accounts[comment])
            release.installed = True
            kubectl("rollout", "status", "deployment/kuberay-operator", "-n", TEAM, "--timeout=60s")
            release.start(operators)
            await team.put(ray_cluster())
            await ready(team)
            assert not may(release.account, "list", "pods"), "nothing is cluster-wide"
        finally:
            operators.stop()
            release.uninstall()


async def test_by_kustomize(world: World, operators: Operator, tmp_path: Path) -> None:
    """``kubectl apply -k config``: the same operator from plain manifests, with the permissions of ``kuberay rbac``; and as a
    base, with an image of one's own."""
    operators.stop()
    page = section("install.md", "With kubectl or kustomize")
    (base,) = blocks(page, "yaml")
    (tmp_path / "kustomization.yaml").write_text(base.replace("sha256:…", DIGEST))
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "kuberay").symlink_to(ROOT)
    made = [each for each in yaml.load_all(kubectl("kustomize", str(tmp_path)), Loader=yaml.CSafeLoader) if each]
    (deployment,) = [each for each in made if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{IMAGE}@{DIGEST}"
    assert len([each for each in made if each["kind"] == "CustomResourceDefinition"]) == 4
    try:
        line = commands(page)[0][0]
        assert line == "kubectl apply -k config --server-side"
        # The CRDs are there already, by somebody else.
        typed(f"{line} --force-conflicts", os.environ["KUBECONFIG"])
        kubectl("rollout", "status", "deployment/kuberay-operator", "-n", SYSTEM, "--timeout=60s")
        Release(build_helm(), SYSTEM, tmp_path).start(operators)
        await world.put(ray_cluster())
        await ready(world)
    finally:
        operators.stop()
        others = [each for each in made if each["kind"] != "CustomResourceDefinition"]
        kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(others))
