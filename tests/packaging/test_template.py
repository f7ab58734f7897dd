"""What ``kuberay plugins new`` writes is a package that works: built, installed alone, tested, and run by an operator.

The operator is the installed one; the API server is the test kit's, over HTTP.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from local_operator import local_cluster
from packages import CORE, Environment, requirements, uv

NAME = "my-scheduler"


@dataclass(frozen=True)
class Written:
    """The new package, its wheel, the environment that it is installed in, and where mypy keeps what it knows of that."""

    folder: Path
    wheel: Path
    environment: Environment
    types: Path

    @property
    def checks(self) -> tuple[tuple[str, ...], ...]:
        """Ruff and mypy, as continuous integration runs them."""
        return ("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy", "--cache-dir", str(self.types))


def build(folder: Path, into: Path) -> Path:
    uv("build", "--wheel", "--quiet", "--out-dir", into, folder)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def written(wheels: dict[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The environment has the core and the new plugin, nothing else of ours."""
    place = tmp_path_factory.mktemp("template")
    environment = Environment(place / "venv")
    environment.install(wheels.values(), wheels[CORE])
    environment.run("kuberay", "plugins", "new", NAME, cwd=place)
    wheel = build(place / NAME, place / "dist")
    environment.install(wheels.values(), wheel)
    return Written(place / NAME, wheel, environment, place / "types")


@pytest.fixture(scope="module")
def tested(written: Written, wheels: dict[Path, Path]) -> Written:
    """With what its tests need, as its extra ``test`` says; pytest-xdist only saves time."""
    written.environment.install([*wheels.values(), written.wheel], f"kuberay-{NAME}[test]", "pytest-xdist")
    return written


# The order of these tests is that of an author: nothing of the test kit is installed in the first ones.


def test_installed_alone_it_is_the_only_plugin(written: Written) -> None:
    ours = {name for name in written.environment.versions() if name.startswith("kuberay-")}
    assert ours == {"kuberay-core", f"kuberay-{NAME}"}
    listed = written.environment.run("kuberay", "plugins", "--json", "--batch-scheduler", NAME)
    (found,) = json.loads(listed.stdout)
    assert (found["name"], found["enabled"]) == (NAME, True)


def test_the_wheel_has_the_package_and_nothing_else(written: Written) -> None:
    with zipfile.ZipFile(written.wheel) as archive:
        files = set(archive.namelist())
    package = f"kuberay_{NAME.replace('-', '_')}"
    assert {name.split("/")[0] for name in files} == {package, f"{package}-0.1.0.dist-info"}
    assert f"{package}/py.typed" in files
    assert f"{package}-0.1.0.dist-info/licenses/LICENSE" in files
    assert requirements(written.wheel) == ["kuberay-core<0.2,>=0.1"]


def test_it_makes_a_group_and_marks_every_pod(written: Written) -> None:
    sample = str(written.folder / "examples" / "raycluster.yaml")
    rendered = written.environment.run("kuberay", "render", "-f", sample, "--batch-scheduler", NAME)
    children = [body for body in yaml.safe_load_all(rendered.stdout) if body]
    (group,) = [body for body in children if body["kind"] == "PodGroup"]
    pods = [body for body in children if body["kind"] == "Pod"]
    assert group["spec"]["minMember"] == len(pods) == 3
    assert {pod["spec"]["schedulerName"] for pod in pods} == {NAME}
    assert {pod["metadata"]["annotations"]["scheduling.example.com/pod-group"] for pod in pods} == {"demo"}


def test_its_permissions_are_printed_with_the_operators(written: Written) -> None:
    printed = written.environment.run("kuberay", "rbac", "--batch-scheduler", NAME).stdout
    rules = [rule for body in yaml.safe_load_all(printed) if body for rule in body.get("rules") or ()]
    (rule,) = [rule for rule in rules if "podgroups" in rule["resources"]]
    assert rule["apiGroups"] == ["scheduling.example.com"]


def run_tests(environment: Environment, folder: Path, *more: str, at_least: int) -> None:
    words = ("-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", *more)
    told = environment.run("python", "-m", "pytest", *words, cwd=folder).stdout
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None, told
    assert int(passed[1]) >= at_least, told
    assert " skipped" not in told


def test_its_own_tests_pass(tested: Written) -> None:
    """The conformance suite among them."""
    run_tests(tested.environment, tested.folder, at_least=60)


def test_its_checks_pass(tested: Written) -> None:
    """Ruff and mypy, as its continuous integration runs them."""
    for command in tested.checks:
        tested.environment.run(*command, cwd=tested.folder)


@pytest.mark.parametrize("kind", ["scheduler", "pod-mutator", "upgrade-strategy"])
@pytest.mark.parametrize("name", ["a", "a-plugin-with-the-longest-name-of-all-40"], ids=["short", "long"])
def test_packages_of_any_name_are_in_good_style(tested: Written, name: str, kind: str, tmp_path: Path) -> None:
    tested.environment.run("kuberay", "plugins", "new", name, "--kind", kind, cwd=tmp_path)
    for command in (("ruff", "check", "."), ("ruff", "format", "--check", ".")):
        tested.environment.run(*command, cwd=tmp_path / name)


def test_a_pod_mutator_passes_its_tests_and_checks(tested: Written, tmp_path: Path) -> None:
    """It comes into the same environment: its tests load the plugins that they name, and no other."""
    environment, folder = tested.environment, tmp_path / "my-labels"
    environment.run("kuberay", "plugins", "new", "my-labels", "--kind", "pod-mutator", cwd=tmp_path)
    environment.install([], build(folder, tmp_path / "dist"))
    run_tests(environment, folder, at_least=25)
    *style, types = tested.checks
    for command in (*style, (*types, "src")):
        environment.run(*command, cwd=folder)
    sample, config = folder / "examples" / "raycluster.yaml", folder / "examples" / "operator.yaml"
    rendered = environment.run("kuberay", "render", "-f", str(sample), "--config", str(config)).stdout
    pods = [body for body in yaml.safe_load_all(rendered) if body and body["kind"] == "Pod"]
    assert {pod["metadata"]["labels"]["example.com/team"] for pod in pods} == {"research"}
    assert len(pods) == 3


def test_an_upgrade_strategy_passes_its_tests_and_checks(tested: Written, tmp_path: Path) -> None:
    """Of the conformance suite, which tells long stories, only the cases about upgrades that somebody stops."""
    environment, folder = tested.environment, tmp_path / "my-upgrade"
    environment.run("kuberay", "plugins", "new", "my-upgrade", "--kind", "upgrade-strategy", cwd=tmp_path)
    environment.install([], build(folder, tmp_path / "dist"))
    run_tests(environment, folder, "-k", "test_steps or paused or aborted", at_least=9)
    *style, types = tested.checks
    for command in (*style, (*types, "src")):
        environment.run(*command, cwd=folder)


def test_continuous_integration_runs_what_was_run_here(written: Written) -> None:
    workflow = yaml.safe_load((written.folder / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert steps[:4] == ["pip install -e '.[test]'", "ruff check . && ruff format --check .", "mypy", "pytest"]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_an_operator_gives_a_raycluster_its_group(tested: Written, tmp_path: Path) -> None:
    """Chosen by ``--batch-scheduler``; the cluster becomes ready with a group that was there before its pods."""
    with local_cluster(tmp_path) as local:
        local.start_server(tested.environment, sorted((tested.folder / "examples").glob("*.yaml")))
        local.start_operator(tested.environment, "--batch-scheduler", NAME)
        local.until_ready("demo")
        group = local.get("/apis/scheduling.example.com/v1/namespaces/default/podgroups/demo")
        pods = local.get("/api/v1/namespaces/default/pods")["items"]
    assert group["spec"]["minMember"] == len(pods) == 3
    assert {pod["spec"]["schedulerName"] for pod in pods} == {NAME}
    born = [pod["metadata"]["creationTimestamp"] for pod in pods]
    assert group["metadata"]["creationTimestamp"] <= min(born)
