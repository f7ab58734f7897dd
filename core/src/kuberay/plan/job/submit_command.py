"""The command line with which a submitter hands the job to Ray and follows its log.

Source: spec rayjob.md 3.2 and 3.3. Raises `SubmitCommandError` where KubeRay refuses to build it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from kuberay.api import runtime_env
from kuberay.api.job import RayJobSpec
from kuberay.api.problems import Problem
from kuberay.plan.job.modes import mode_of
from kuberay.plan.job.quoting import double_quoted, entrypoint_arguments

_SEMVER = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_METADATA_SINCE = (2, 6, 0)


class SubmitCommandError(ValueError):
    """The job cannot be submitted as it is written; the text is one sentence that names the field."""


def load_runtime_env(text: str) -> dict[str, Any] | None:
    """The runtime environment in *text*; None when it is only comments. Raises `SubmitCommandError` where it is none."""
    try:
        return runtime_env.load_runtime_env(text)
    except runtime_env.RuntimeEnvError as error:
        raise SubmitCommandError(f"spec.runtimeEnvYAML cannot be read: {error}") from error


def go_json(value: Any) -> str:
    """JSON as Go's encoder writes it: compact, sorted keys, ``<``, ``>``, ``&`` escaped, other letters kept."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def check_metadata(spec: RayJobSpec) -> None:
    """Raise `SubmitCommandError` when the stated Ray version is too old for ``spec.metadata``, or is none."""
    version = spec.ray_cluster_spec.ray_version if spec.ray_cluster_spec is not None else ""
    if not spec.metadata or not version:
        return
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise SubmitCommandError(
            f"spec.metadata needs spec.rayClusterSpec.rayVersion to be a semantic version, not {version!r}"
        )
    release = tuple(int(part or 0) for part in match.group(1, 2, 3))
    if match[4] or release < _METADATA_SINCE:
        raise SubmitCommandError(f"spec.metadata needs Ray 2.6.0 or newer, spec.rayClusterSpec.rayVersion is {version}")


def unsubmittable(spec: RayJobSpec) -> list[Problem]:
    """What keeps a job from ever being submitted, though each field is well-formed."""
    problems = []
    try:
        check_metadata(spec)
    except SubmitCommandError as error:
        problems.append(Problem("spec.metadata", str(error)))
    # A command line takes any text; what Ray says to it shows in the submitter's log.
    if mode_of(spec).posts and spec.entrypoint_resources:
        try:
            _resources(spec.entrypoint_resources)
        except SubmitCommandError as error:
            problems.append(Problem("spec.entrypointResources", str(error)))
    return problems


def http_address(dashboard_url: str) -> str:
    """``status.dashboardURL`` with the scheme that ``ray job`` wants."""
    return dashboard_url if dashboard_url.startswith("http://") else f"http://{dashboard_url}"


def submit_command(
    spec: RayJobSpec, *, address: str, health_address: str, job_id: str, reattach: bool = True
) -> list[str]:
    """The tokens of spec 3.2; joined by blanks they are the shell script.

    *address* and *health_address* carry a scheme. With *reattach* (K8sJobMode) a submission id that is known already
    is followed instead of submitted again, and submitting does not block.
    """
    check_metadata(spec)
    # Nobody checks what a user calls a job; a usual name stays as it is.
    job_id = shlex.quote(job_id) if job_id else ""
    probe = (
        f"import urllib.request; r=urllib.request.urlopen('{health_address}/api/gcs_healthz', timeout=10); "
        "exit(0 if b'success' in r.read() else 1)"
    )
    tokens = ["until", f'python -c "{probe}"', ">/dev/null", "2>&1", ";", "do", "echo"]
    tokens += [
        f'"Waiting for Ray Dashboard GCS to become healthy at {address} ..."',
        ";",
        "sleep",
        "2",
        ";",
        "done",
        ";",
    ]
    if reattach:
        tokens += ["if", "!", "ray", "job", "status", "--address", address, job_id, ">/dev/null", "2>&1", ";", "then"]
    tokens += ["ray", "job", "submit", "--address", address]
    if reattach:
        tokens.append("--no-wait")
    tokens += _options(spec, job_id)
    tokens += ["--", entrypoint_arguments(spec.entrypoint), ";"]
    if reattach:
        tokens += ["fi", ";", "ray", "job", "logs", "--address", address, "--follow", job_id]
    return tokens


def _options(spec: RayJobSpec, job_id: str) -> list[str]:
    options: list[str] = []
    if spec.runtime_env_yaml:
        options += ["--runtime-env-json", double_quoted(go_json(load_runtime_env(spec.runtime_env_yaml)))]
    if spec.metadata:
        options += ["--metadata-json", double_quoted(go_json(spec.metadata))]
    if job_id:
        options += ["--submission-id", job_id]
    if spec.entrypoint_num_cpus > 0:
        options += ["--entrypoint-num-cpus", f"{spec.entrypoint_num_cpus:f}"]
    if spec.entrypoint_num_gpus > 0:
        options += ["--entrypoint-num-gpus", f"{spec.entrypoint_num_gpus:f}"]
    if spec.entrypoint_resources:
        options += ["--entrypoint-resources", double_quoted(_one_line(spec.entrypoint_resources))]
    return options


def submit_request(spec: RayJobSpec, job_id: str) -> Mapping[str, Any]:
    """The body of a submission over HTTP (spec 3.10). Raises `SubmitCommandError` when resources are no numbers."""
    body: dict[str, Any] = {"entrypoint": spec.entrypoint}
    if job_id:
        body["submission_id"] = job_id
    environment = load_runtime_env(spec.runtime_env_yaml) if spec.runtime_env_yaml else None
    if environment:
        body["runtime_env"] = environment
    if spec.metadata:
        body["metadata"] = dict(spec.metadata)
    if spec.entrypoint_num_cpus:
        body["entrypoint_num_cpus"] = spec.entrypoint_num_cpus
    if spec.entrypoint_num_gpus:
        body["entrypoint_num_gpus"] = spec.entrypoint_num_gpus
    if spec.entrypoint_resources:
        body["entrypoint_resources"] = _resources(spec.entrypoint_resources)
    return body


def _one_line(text: str) -> str:
    """JSON without breaks of lines between its members, which would not be JSON any more once they are quoted."""
    if text.isprintable():
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _resources(text: str) -> dict[str, float]:
    try:
        resources = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise SubmitCommandError(f"spec.entrypointResources is not JSON: {error}") from error
    if not isinstance(resources, dict) or not all(
        isinstance(amount, int | float) and not isinstance(amount, bool) for amount in resources.values()
    ):
        raise SubmitCommandError("spec.entrypointResources must be a JSON object of names and numbers")
    return resources


def _no_number(word: str) -> float:
    """Python reads them, JSON does not have them."""
    raise ValueError(f"{word} is not JSON")
