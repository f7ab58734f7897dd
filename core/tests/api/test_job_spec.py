import pytest
from kuberay.api.job import JobDeploymentStatus, JobStatus, JobSubmissionMode, RayJobSpec


def test_defaults() -> None:
    spec = RayJobSpec.parse({})
    assert spec.mode is JobSubmissionMode.K8S_JOB
    assert (spec.retries, spec.submitter_backoff_limit, spec.selected_cluster) == (0, 2, "")
    assert (spec.runtime_env_yaml, spec.entrypoint_num_cpus) == ("", 0)


def test_wire_names() -> None:
    spec = RayJobSpec.parse(
        {
            "runtimeEnvYAML": "a: 1",
            "entrypointNumCpus": 1,
            "entrypointNumGpus": 0.5,
            "submissionMode": "HTTPMode",
            "clusterSelector": {"ray.io/cluster": "shared"},
            "submitterConfig": {"backoffLimit": 0},
            "backoffLimit": 3,
        }
    )
    assert spec.runtime_env_yaml == "a: 1"
    assert (spec.entrypoint_num_cpus, spec.entrypoint_num_gpus) == (1, 0.5)
    assert spec.mode is JobSubmissionMode.HTTP
    assert (spec.selected_cluster, spec.submitter_backoff_limit, spec.retries) == ("shared", 0, 3)


@pytest.mark.parametrize(("text", "mode"), [("", JobSubmissionMode.K8S_JOB), ("Carrier", None)])
def test_odd_modes(text: str, mode: JobSubmissionMode | None) -> None:
    assert RayJobSpec.parse({"submissionMode": text}).mode is mode


def test_terminal_states() -> None:
    assert {state for state in JobDeploymentStatus if state.terminal} == {"Complete", "Failed"}
    assert {state for state in JobStatus if state.terminal} == {"STOPPED", "SUCCEEDED", "FAILED"}
