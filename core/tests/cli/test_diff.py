"""``kuberay diff``: what it tells about an edit, from files and from an API server, and its exit codes."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import Result
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.crd import object_schema
from kuberay.api.structural import defaulted
from kuberay.cli.applied import applied
from kuberay.cli.main import app
from kuberay.plan.build.spec_hash import spec_hash
from kuberay_testkit.builders import build_group, build_raycluster
from typer.testing import CliRunner

Manifest = dict[str, Any]

IMAGE = "spec.workerGroupSpecs[gpu].template.spec.containers[ray-worker].image"


def diff(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["diff", *arguments], input=stdin)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def _write(name: str, *bodies: Manifest) -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(bodies))
        return str(path)

    return _write


def cluster(name: str = "rc", **spec: Any) -> Manifest:
    return build_raycluster(name, groups=[build_group("cpu", 1), build_group("gpu", 2)], **spec)


def new_image(manifest: Manifest) -> Manifest:
    changed = copy.deepcopy(manifest)
    changed["spec"]["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:next"
    return changed


@pytest.mark.parametrize(
    ("strategy", "headline", "effect"),
    [
        (None, "restarts nothing", "only new pods of group gpu: running pods stay as they are"),
        ("Recreate", "restarts the whole cluster", "all pods are made anew: upgradeStrategy.type is Recreate"),
        ("Rolling", "restarts gpu, step by step", "pods are replaced step by step: gpu"),
    ],
)
def test_a_page_for_people(write: Any, strategy: str | None, headline: str, effect: str) -> None:
    old = cluster(**({"upgradeStrategy": {"type": strategy}} if strategy else {}))
    result = diff("-f", write("new", new_image(old)), "--against", write("old", old))
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"RayCluster default/rc: {headline}"
    (line,) = [line for line in lines if IMAGE in line]
    assert line.split(f"{IMAGE}: ")[1].split("   ")[0] == "rayproject/ray:2.52.0 -> rayproject/ray:next"
    assert line.endswith(effect)
    assert [line.split()[0] for line in lines[1:5]] == ["GROUP", "headgroup", "cpu", "gpu"]


def test_json_for_programs(write: Any) -> None:
    old = cluster(upgradeStrategy={"type": "Rolling"})
    result = diff("-f", write("new", new_image(old)), "--against", write("old", old), "-o", "json")
    (told,) = json.loads(result.stdout)
    assert (told["namespace"], told["name"], told["restarts"], told["refused"]) == ("default", "rc", "groups", False)
    assert told["restartedGroups"] == ["gpu"]
    assert [(group["name"], group["podsBefore"], group["podsAfter"]) for group in told["groups"]] == [
        ("headgroup", 1, 1),
        ("cpu", 1, 1),
        ("gpu", 2, 2),
    ]
    (change,) = told["changes"]
    assert (change["field"], change["after"], change["effect"]) == (IMAGE, "rayproject/ray:next", "replaces-pods")


def test_no_change_and_what_only_defaults_differ_in(write: Any) -> None:
    old = cluster()
    for group in old["spec"]["workerGroupSpecs"]:
        del group["minReplicas"]
    new = copy.deepcopy(old)
    new["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 0, "numOfHosts": 1, "priority": 0}
    result = diff("-f", write("new", new), "--against", write("old", old))
    assert (result.exit_code, result.stdout) == (0, "RayCluster default/rc: no change\n")


def test_several_documents_lists_and_standard_input(write: Any) -> None:
    one, two, three = (cluster(name) for name in ("one", "two", "three"))
    old = write("old", one, {"kind": "List", "apiVersion": "v1", "items": [two]})
    new = yaml.safe_dump_all(
        [
            one,
            {"kind": "ConfigMap", "metadata": {"name": "x"}},
            {"apiVersion": "ray.io/v1", "kind": "RayThing", "metadata": {"name": "s"}},
            {"items": [new_image(two)]},
            three,
        ]
    )
    result = diff("-f", "-", "--against", old, stdin=new)
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if line.startswith("RayCluster")] == [
        "RayCluster default/one: no change",
        "RayCluster default/two: restarts nothing",
        "RayCluster default/three: is not there yet; it would be made",
    ]
    assert result.stderr == (
        "kuberay: RayThing s is left out: kuberay knows RayClusters, RayJobs, RayServices and RayCronJobs.\n"
    )


def test_a_refused_edit_is_exit_code_1(write: Any) -> None:
    old = cluster()
    new = copy.deepcopy(old)
    new["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 5, "maxReplicas": 3}
    result = diff("-f", write("new", new), "--against", write("old", old))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "RayCluster default/rc: the edit would be refused; what runs is not touched"
    assert lines[1].startswith("  spec.workerGroupSpecs[0].minReplicas: worker group cpu has minReplicas 5")
    fresh = diff("-f", write("new", new), "--against", write("other", cluster("other")))
    assert fresh.exit_code == 1
    assert fresh.stdout.startswith("RayCluster default/rc: would be refused\n")


def test_gates_are_those_of_the_operator(write: Any) -> None:
    old, new = cluster(), cluster(networkPolicy={"mode": "DenyAll"})
    files = ("-f", write("new", new), "--against", write("old", old))
    assert diff(*files).exit_code == 1
    assert diff(*files, "--feature-gates", "RayClusterNetworkPolicy=true").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-f", "/does/not/exist", "--against", "x"], 1, "Cannot read /does/not/exist"),
        (
            ["-f", "-", "--against", "-"],
            1,
            "There is no RayCluster, RayJob, RayService or RayCronJob in standard input.",
        ),
        (["-f", "-", "-o", "xml"], 2, "--output must be table or json, not 'xml'"),
        (["-f", "-", "--feature-gates", "No=true"], 1, "unknown feature gate 'No'"),
        ([], 2, "--file"),
        (["-f", "-", "--no-such"], 2, "--no-such"),
    ],
)
def test_mistakes(arguments: list[str], code: int, words: str) -> None:
    result = diff(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is not YAML"),
        ("kind: RayCluster\n", "no metadata.name"),
        ("kind: RayCluster\nmetadata: x\n", "no metadata"),
        ("kind: RayCluster\nmetadata: {name: a, labels: 7}\n", "RayCluster a: metadata.labels must be a mapping"),
        (
            "kind: RayCluster\nmetadata: {name: a, annotations: {ray.io/drain-timeout-seconds: 30}}\n",
            "metadata.annotations[ray.io/drain-timeout-seconds] must be a string, not 30",
        ),
    ],
)
def test_broken_files(text: str, words: str) -> None:
    result = diff("-f", "-", stdin=text)
    assert result.exit_code == 1
    assert words in result.stderr


class _Answers(BaseHTTPRequestHandler):
    objects: dict[str, Any]

    def do_GET(self) -> None:
        found = self.objects.get(self.path.partition("?")[0])
        body = orjson.dumps(found or {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[Any]:
    """Serves what is put into the dictionary; its kubeconfig has the namespace ``lab``."""
    objects: dict[str, Any] = {}
    handler = type("Handler", (_Answers,), {"objects": objects})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield objects, str(path)
        server.shutdown()
        thread.join()


def live(manifest: Manifest, objects: dict[str, Any]) -> Manifest:
    """Put it where the API server has it, with defaults."""
    schema = object_schema(RayClusterSpec, {})
    body = {**manifest, "spec": defaulted(manifest["spec"], schema), "status": {"state": "ready"}}
    body["metadata"] = {**manifest["metadata"], "namespace": "lab"}
    objects[f"/apis/ray.io/v1/namespaces/lab/rayclusters/{manifest['metadata']['name']}"] = body
    return body


def without_namespace(manifest: Manifest) -> Manifest:
    changed = copy.deepcopy(manifest)
    changed["metadata"].pop("namespace", None)
    return changed


def test_against_what_the_api_server_has(write: Any, api_server: Any) -> None:
    objects, kubeconfig = api_server
    there, missing = cluster("there", upgradeStrategy={"type": "Recreate"}), cluster("missing")
    live(there, objects)
    file = write("new", *map(without_namespace, (new_image(there), missing)))
    result = diff("-f", file, "--kubeconfig", kubeconfig)
    assert result.exit_code == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line.startswith("RayCluster")] == [
        "RayCluster lab/there: restarts the whole cluster",
        "RayCluster lab/missing: is not there yet; it would be made",
    ]
    elsewhere = diff("-f", file, "--kubeconfig", kubeconfig, "-n", "elsewhere")
    assert "RayCluster elsewhere/there: is not there yet" in elsewhere.stdout


def test_the_age_of_running_pods_counts(write: Any, api_server: Any) -> None:
    objects, kubeconfig = api_server
    before = cluster()
    body = live(before, objects)
    labels = {"ray.io/cluster": "rc", "ray.io/node-type": "head", "ray.io/group": "headgroup"}

    def with_head(made_from: str) -> str:
        annotations = {"ray.io/upgrade-strategy-recreate-hash": made_from}
        pod = {"metadata": {"name": "h", "labels": labels, "annotations": annotations}}
        objects["/api/v1/namespaces/lab/pods"] = {"metadata": {"resourceVersion": "1"}, "items": [pod]}
        after = without_namespace({**before, "spec": {**before["spec"], "upgradeStrategy": {"type": "Recreate"}}})
        return diff("-f", write("new", after), "--kubeconfig", kubeconfig).stdout

    assert "restarts nothing" in with_head(spec_hash(body["spec"]))
    told = with_head("OLD")
    assert "restarts the whole cluster" in told
    assert "made from an earlier spec" in told


def test_no_cluster_is_one_sentence() -> None:
    result = diff("-f", "-", "--kubeconfig", "/does/not/exist", stdin=yaml.safe_dump(cluster()))
    assert result.exit_code == 1
    assert result.stderr.startswith("kuberay: Cannot find an API server to connect to")


def test_an_api_server_that_does_not_answer_is_one_sentence(write: Any, tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "k"
    path.write_text(yaml.safe_dump(config))
    result = diff("-f", write("new", cluster()), "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith("kuberay: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        ({}, {"suspend", "rayVersion"}),
        ({"annotations": {LAST_APPLIED: '{"spec": {"rayVersion": "2"}}'}}, {"suspend"}),
        ({"managedFields": [{"operation": "Apply", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]}, {"rayVersion"}),
        (
            {"managedFields": [{"operation": "Update", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]},
            {"suspend", "rayVersion"},
        ),
        ({"annotations": {LAST_APPLIED: "no json"}}, {"suspend", "rayVersion"}),
    ],
)
def test_fields_that_no_apply_had_set_stay(metadata: Manifest, kept: set[str]) -> None:
    """What a queue or a user set besides the file is not taken away by applying the file."""
    there = {"metadata": metadata, "spec": {"suspend": False, "rayVersion": "2", "workerGroupSpecs": [{"replicas": 9}]}}
    merged = applied(there, {"metadata": {"name": "x"}, "spec": {"workerGroupSpecs": [{"replicas": 1}]}})
    assert merged["spec"].pop("workerGroupSpecs") == [{"replicas": 1}], "lists are taken over as a whole"
    assert set(merged["spec"]) == kept
    assert merged["metadata"]["annotations"] == {}
