"""The samples: each holds to the schema, is accepted with what it says it needs, and turns into pods; together they show
every field and annotation there is."""

from __future__ import annotations

import json
import shlex
import typing
from functools import cache
from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.crd import crds
from kuberay.api.cronjob import JobTemplateMetadata, RayCronJobSpec
from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.job import RayJobSpec
from kuberay.api.problems import Problem
from kuberay.api.schema import Model
from kuberay.api.serve_config import load_serve_config
from kuberay.api.service import RayServiceSpec
from kuberay.api.shipped import PACKAGES
from kuberay.api.structural import structural_problems
from kuberay.api.validation.cluster import validate_cluster
from kuberay.api.validation.cronjob import validate_cronjob
from kuberay.api.validation.job import validate_job
from kuberay.api.validation.service import validate_service
from kuberay.operator.offline import Rendered
from kuberay.operator.offline import render as render_offline
from kuberay.operator.settings import load_settings
from kuberay.operator.start import PLANS, assemble_plugins
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import list_installed

from dev.samples import Sample, render, samples

Manifest = dict[str, Any]

OBJECTS = [sample for sample in samples() if not sample.name.startswith("operator-")]
EACH = pytest.mark.parametrize("sample", OBJECTS, ids=lambda sample: sample.name)

MANAGED_ELSEWHERE = {"raycluster-multikueue"}
SUSPENDED = {"raycluster-suspend"}


@cache
def schemas() -> dict[str, Manifest]:
    return {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for crd in crds(slim=False)
    }


def ray_objects(sample: Sample) -> list[Manifest]:
    found = [document for document in sample.documents() if document["kind"] in schemas()]
    assert found, "a sample is about a Ray object"
    return found


def clusters() -> list[Manifest]:
    return [o for sample in OBJECTS for o in ray_objects(sample) if o["kind"] == "RayCluster"]


def refusals(manifest: Manifest, gates: dict[str, bool]) -> list[Problem]:
    metadata = manifest["metadata"]
    if manifest["kind"] == "RayCronJob":
        return validate_cronjob(metadata["name"], {}, manifest["spec"], gates)
    validate: Any = {"RayCluster": validate_cluster, "RayJob": validate_job, "RayService": validate_service}[
        manifest["kind"]
    ]
    found: list[Problem] = validate(
        metadata["name"], metadata.get("labels") or {}, metadata.get("annotations") or {}, manifest["spec"], gates
    )
    return found


def rendered(sample: Sample, manifest: Manifest) -> Rendered:
    installed = {plugin.name for plugin in list_installed()}
    flags = {"plugins": {"enabled": sorted(installed & {"autoscaler-v2", *sample.plugins})}}
    hooks, gates = assemble_plugins(load_settings("", flags))
    gates |= dict.fromkeys(sample.gates, True)
    return render_offline(manifest, plans=PLANS, hooks=hooks, gates=gates, config=PlanConfig())


def test_there_are_enough() -> None:
    assert len([sample for sample in OBJECTS if sample.name.startswith("raycluster")]) >= 40


@EACH
def test_the_schema_knows_every_field(sample: Sample) -> None:
    for manifest in ray_objects(sample):
        assert manifest["apiVersion"] == "ray.io/v1"
        assert structural_problems(manifest["spec"], schemas()[manifest["kind"]], "spec") == []


@EACH
def test_it_is_accepted_with_the_gates_it_names_and_only_then(sample: Sample) -> None:
    gates = DEFAULT_GATES | dict.fromkeys(sample.gates, True)
    for manifest in ray_objects(sample):
        assert refusals(manifest, gates) == []
        for gate in set(sample.gates) - {CRON_JOB}:  # Without that one nobody looks at the object.
            assert any(gate in problem.message for problem in refusals(manifest, gates | {gate: False}))


@EACH
def test_it_turns_into_pods(sample: Sample) -> None:
    missing = set(sample.plugins) - {plugin.name for plugin in list_installed()}
    for manifest in ray_objects(sample):
        result = rendered(sample, manifest)
        pods = [child for child in result.children if child["kind"] == "Pod"]
        if missing:
            assert pods == []
            said = [PACKAGES.get(plugin, "no package of this release has it") for plugin in missing]
            assert any(words in problem for problem in result.problems for words in said)
            continue
        if any(need.startswith("cert-manager") for need in sample.needs):
            assert all("waiting for cert-manager" in problem for problem in result.problems)
            continue
        if "clusterSelector" in manifest["spec"]:
            (problem,) = result.problems
            assert "set in the clusterSelector is not found" in problem
            continue
        assert result.problems == []
        if sample.name in MANAGED_ELSEWHERE:
            assert result.children == []
            continue
        wanted = 0 if sample.name in SUSPENDED else _wanted_pods(manifest)
        assert len(pods) == wanted
        assert any(child["kind"] == "Service" for child in result.children)
        for pod in pods:
            _a_shell_can_read_what_starts_ray(pod)


def _a_shell_can_read_what_starts_ray(pod: Manifest) -> None:
    env = {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]}
    words = shlex.split(env["KUBERAY_GEN_RAY_START_CMD"])
    assert words[:2] == ["ray", "start"]
    flags = dict(word.removeprefix("--").partition("=")[::2] for word in words[2:])
    for name in ("resources", "system-config"):
        assert isinstance(json.loads(flags.get(name, "{}")), dict)


def _cluster_spec(manifest: Manifest) -> Manifest:
    spec: Manifest = manifest["spec"]
    for key in _CLUSTER_SPEC_AT.get(manifest["kind"], ()):
        spec = spec[key]
    return spec


_CLUSTER_SPEC_AT = {
    "RayJob": ("rayClusterSpec",),
    "RayService": ("rayClusterConfig",),
    "RayCronJob": ("jobTemplate", "rayClusterSpec"),
}


def _wanted_pods(manifest: Manifest) -> int:
    spec = _cluster_spec(manifest)
    return 1 + sum(group.desired_pods() for group in RayClusterSpec.parse(spec).worker_group_specs)


@EACH
def test_versions_agree_with_images(sample: Sample) -> None:
    for manifest in ray_objects(sample):
        if "clusterSelector" in manifest["spec"]:
            continue
        spec = _cluster_spec(manifest)
        groups = [spec["headGroupSpec"], *spec.get("workerGroupSpecs", [])]
        tags = {group["template"]["spec"]["containers"][0]["image"].partition("rayproject/ray:")[2] for group in groups}
        assert {tag.partition("-")[0] for tag in tags} == {spec["rayVersion"]}


def test_names_are_unique_so_that_all_can_be_applied_at_once() -> None:
    keys = [(d["kind"], d["metadata"]["name"]) for sample in OBJECTS for d in sample.documents()]
    assert sorted(keys) == sorted(set(keys))


def model_fields(model: type[Model], path: str = "") -> set[str]:
    """Paths of every field of the models, lists left out."""
    found = set()
    for name, info in model.model_fields.items():
        wire = f"{path}.{info.alias or name}".lstrip(".")
        found.add(wire)
        for below in _models(info.annotation):
            found |= model_fields(below, wire)
    return found


def _models(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [found for argument in typing.get_args(annotation) for found in _models(argument)]


def paths(value: Any, path: str = "") -> set[str]:
    if isinstance(value, list):
        return {found for item in value for found in paths(item, path)}
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, item in value.items():
        below = f"{path}.{key}".lstrip(".")
        found |= {below, *paths(item, below)}
    return found


NOT_SHOWN = {
    "workerGroupSpecs.scaleStrategy",
    "workerGroupSpecs.scaleStrategy.workersToDelete",
    "gcsFaultToleranceOptions.storage.storageClassName",
    "gcsFaultToleranceOptions.redisUsername.valueFrom",
    "historyServerOptions.collectorOptions.imagePullPolicy",
    "historyServerOptions.collectorOptions.resources",
    "networkPolicy.head.egressRules",
    "headGroupSpec.disruptionBudget.maxUnavailable",
    "workerGroupSpecs.disruptionBudget.minAvailable",
    "networkPolicy.worker.egressRules",
    "networkPolicy.workerGroups.ingressRules",
}
"""Written by the autoscaler, or shown by a field just like it."""


def test_every_field_is_shown_somewhere() -> None:
    shown = {path for cluster in clusters() for path in paths(cluster["spec"])}
    assert model_fields(RayClusterSpec) - shown - NOT_SHOWN == set()
    assert model_fields(RayClusterSpec) >= NOT_SHOWN, "there is no such field any more"


def test_every_field_of_a_rayjob_is_shown_somewhere() -> None:
    jobs = [o for sample in OBJECTS for o in ray_objects(sample) if o["kind"] == "RayJob"]
    shown = {path for job in jobs for path in paths(job["spec"])}
    fields = {
        path for path in model_fields(RayJobSpec) if not path.startswith(("rayClusterSpec.", "submitterPodTemplate."))
    }
    # Queues set the one, other operators the other.
    assert fields - shown == {"suspend", "managedBy"}


def services() -> list[Manifest]:
    return [o for sample in OBJECTS for o in ray_objects(sample) if o["kind"] == "RayService"]


def test_every_field_of_a_rayservice_is_shown_somewhere() -> None:
    shown = {path for service in services() for path in paths(service["spec"])}
    fields = {path for path in model_fields(RayServiceSpec) if not path.startswith("rayClusterConfig.")}
    # The first two are other operators', the others mean nothing.
    assert fields - shown == {
        "suspend",
        "managedBy",
        "serviceUnhealthySecondThreshold",
        "deploymentUnhealthySecondThreshold",
    }


def test_what_a_rayservice_imports_is_in_its_sample() -> None:
    for sample in OBJECTS:
        documents = sample.documents()
        for service in (o for o in documents if o["kind"] == "RayService"):
            (code,) = (o for o in documents if o["kind"] == "ConfigMap")
            config = load_serve_config(service["spec"]["serveConfigV2"])
            modules = {application["import_path"].partition(":")[0] for application in config["applications"]}
            assert {f"{module}.py" for module in modules} == set(code["data"])
            for text in code["data"].values():
                compile(text, "greeter.py", "exec")
            for pod in _templates(service):
                volumes = {volume["configMap"]["name"] for volume in pod["spec"]["volumes"]}
                (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
                env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
                assert volumes == {code["metadata"]["name"]}
                assert env["PYTHONPATH"] == mount["mountPath"]


def _templates(manifest: Manifest) -> list[Manifest]:
    spec = _cluster_spec(manifest)
    return [group["template"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


def test_every_field_of_a_raycronjob_is_shown_somewhere() -> None:
    crons = [o for sample in OBJECTS for o in ray_objects(sample) if o["kind"] == "RayCronJob"]
    shown = {path for cron in crons for path in paths(cron["spec"])}
    own = {info.alias or name for name, info in RayCronJobSpec.model_fields.items()}
    assert own | model_fields(JobTemplateMetadata, "jobTemplateMetadata") <= shown


def test_the_annotation_of_a_rayservice_is_shown_somewhere() -> None:
    shown = [names.ANNOTATION_INITIALIZING_TIMEOUT in (o["metadata"].get("annotations") or {}) for o in services()]
    assert any(shown)


@pytest.mark.parametrize(
    "annotation",
    [
        names.ANNOTATION_FT_ENABLED,
        names.ANNOTATION_EXTERNAL_STORAGE_NAMESPACE,
        names.ANNOTATION_OVERWRITE_CMD,
        names.ANNOTATION_SERVE_SERVICE,
        names.ANNOTATION_NO_HEAD_RESTART,
        names.ANNOTATION_FT_DELETION_TIMEOUT,
        names.ANNOTATION_DRAIN_TIMEOUT,
        names.ANNOTATION_INGRESS_CLASS,
        names.ANNOTATION_WAIT_GCS_CPU,
    ],
)
def test_every_annotation_is_shown_somewhere(annotation: str) -> None:
    assert any(annotation in (cluster["metadata"].get("annotations") or {}) for cluster in clusters())


def test_the_operators_configuration_can_be_read() -> None:
    (sample,) = [sample for sample in samples() if sample.name.startswith("operator-")]
    settings = load_settings(str(sample.path), {})
    assert settings.namespaces == ["team-a", "team-b"]
    assert settings.plugins.enabled == ["autoscaler-v2", "volcano"]
    (document,) = sample.documents()
    known = {info.alias or name for name, info in type(settings).model_fields.items()}
    assert set(document) - known == {"apiVersion", "kind"}


def test_a_sample_that_does_not_say_what_it_shows_is_refused(tmp_path: Any) -> None:
    (tmp_path / "raycluster-x.yaml").write_text("apiVersion: ray.io/v1\n")
    with pytest.raises(ValueError, match="the first line must be"):
        samples(tmp_path)


def test_the_page_has_each_sample() -> None:
    page = render()
    assert [sample.name for sample in samples() if f"]({sample.path.name})" not in page] == []


def test_the_page_names_what_is_needed(tmp_path: Any) -> None:
    (tmp_path / "raycluster-x.yaml").write_text("# All | at once. Needs: gate G; plugin p; a disk.\n")
    (sample,) = samples(tmp_path)
    assert (sample.gates, sample.plugins) == (["G"], ["p"])
    assert "| [raycluster-x](raycluster-x.yaml) | All \\| at once. | gate G; plugin p; a disk |" in render(tmp_path)
