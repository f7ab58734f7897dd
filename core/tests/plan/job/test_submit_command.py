"""The submit command line and the submitter Job (spec rayjob.md 3.1-3.3, 8.4 rows 60-82)."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from kuberay.api.job import RayJobSpec
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.objects import RayObject, from_dict
from kuberay.plan.build.shell import shell
from kuberay.plan.job.submit_command import (
    SubmitCommandError,
    go_json,
    http_address,
    load_runtime_env,
    submit_command,
    submit_request,
)
from kuberay.plan.job.submitter import submitter_job, submitter_template

HEAD = {"template": {"spec": {"containers": [{"name": "h", "image": "ray:head"}]}}}
BJ: dict[str, Any] = {
    "runtimeEnvYAML": "test: test",
    "metadata": {"testKey": "testValue"},
    "rayClusterSpec": {"rayVersion": "2.6.0", "headGroupSpec": HEAD},
    "entrypoint": "echo no quote 'single quote' \"double quote\"",
    "entrypointNumCpus": 1,
    "entrypointNumGpus": 0.5,
    "entrypointResources": '{"Custom_1": 1, "Custom_2": 5.5}',
}
ADDRESS = "http://127.0.0.1:8265"


def command(spec: dict[str, Any], job_id: str = "testJobId", **options: Any) -> list[str]:
    chosen = {"address": ADDRESS, "health_address": ADDRESS, **options}
    return submit_command(RayJobSpec.parse(spec), job_id=job_id, **chosen)


def after(tokens: list[str], flag: str) -> str:
    return tokens[tokens.index(flag) + 1]


def test_every_token_of_k8s_job_mode() -> None:
    probe = (
        f"import urllib.request; r=urllib.request.urlopen('{ADDRESS}/api/gcs_healthz', timeout=10); "
        "exit(0 if b'success' in r.read() else 1)"
    )
    assert command(BJ) == [
        *("until", f'python -c "{probe}"', ">/dev/null", "2>&1", ";"),
        *("do", "echo", f'"Waiting for Ray Dashboard GCS to become healthy at {ADDRESS} ..."', ";", "sleep", "2", ";"),
        *("done", ";", "if", "!", "ray", "job", "status", "--address", ADDRESS, "testJobId", ">/dev/null", "2>&1", ";"),
        *("then", "ray", "job", "submit", "--address", ADDRESS, "--no-wait"),
        *("--runtime-env-json", '"{\\"test\\":\\"test\\"}"'),
        *("--metadata-json", '"{\\"testKey\\":\\"testValue\\"}"'),
        *("--submission-id", "testJobId"),
        *("--entrypoint-num-cpus", "1.000000", "--entrypoint-num-gpus", "0.500000"),
        *("--entrypoint-resources", '"{\\"Custom_1\\": 1, \\"Custom_2\\": 5.5}"'),
        *("--", "echo no quote 'single quote' \"double quote\"", ";"),
        *("fi", ";", "ray", "job", "logs", "--address", ADDRESS, "--follow", "testJobId"),
    ]


def test_without_reattaching_it_waits_for_the_end() -> None:
    tokens = command(BJ, health_address="http://localhost:9000", reattach=False)
    assert "localhost:9000/api/gcs_healthz" in tokens[1]
    assert not {"if", "--no-wait", "fi", "logs"} & set(tokens)
    assert tokens[-1] == ";"


def test_the_scheme_is_not_doubled() -> None:
    assert http_address("http://127.0.0.1:8265") == http_address("127.0.0.1:8265") == ADDRESS


def test_options_that_are_not_set_are_left_out() -> None:
    tokens = command({"rayClusterSpec": {"headGroupSpec": HEAD}, "entrypoint": "x"}, job_id="")
    assert not [
        token
        for token in tokens
        if token.startswith("--") and token not in ("--", "--address", "--no-wait", "--follow")
    ]


def test_runtime_env_of_several_keys() -> None:
    text = "working_dir: https://x.test/a.zip\npip: [requests==2.26.0, pendulum==2.1.2]\nenv_vars: {counter_name: test_counter}"
    tokens = command({**BJ, "runtimeEnvYAML": text})
    (sent,) = shlex.split(after(tokens, "--runtime-env-json"))
    assert json.loads(sent) == {
        "working_dir": "https://x.test/a.zip",
        "pip": ["requests==2.26.0", "pendulum==2.1.2"],
        "env_vars": {"counter_name": "test_counter"},
    }


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a: yes\nb: on\nc: 'yes'", '{"a":true,"b":true,"c":"yes"}'),
        ("b: 1\na: <x> & y", '{"a":"\\u003cx\\u003e \\u0026 y","b":1}'),
        ("when: 2024-01-01", '{"when":"2024-01-01"}'),
        ("2: x\ntrue: y", '{"2":"x","true":"y"}'),
        ("n: müller", '{"n":"müller"}'),
        ("# only a comment", "null"),
    ],
)
def test_runtime_env_json(text: str, written: str) -> None:
    assert go_json(load_runtime_env(text)) == written


def test_runtime_env_is_not_expanded_by_the_shell() -> None:
    tokens = command({**BJ, "runtimeEnvYAML": 'env_vars: {COST: "$5 `x`"}'})
    assert after(tokens, "--runtime-env-json") == '"{\\"env_vars\\":{\\"COST\\":\\"\\$5 \\`x\\`\\"}}"'


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("not-a-version", True),
        ("2.5.0", True),
        ("2.9.0-rc1", True),
        ("2.6.0", False),
        ("2.6", False),
        ("v2.54.0", False),
        ("", False),
        (None, False),
    ],
)
def test_metadata_needs_a_ray_that_knows_it(version: str | None, refused: bool) -> None:
    spec = {
        **BJ,
        "rayClusterSpec": {"headGroupSpec": HEAD, "rayVersion": version}
        if version is not None
        else {"headGroupSpec": HEAD},
    }
    if refused:
        with pytest.raises(SubmitCommandError, match=r"spec\.metadata needs"):
            command(spec)
    else:
        assert after(command(spec), "--metadata-json") == '"{\\"testKey\\":\\"testValue\\"}"'
    assert "--metadata-json" not in command({**spec, "metadata": {}})


def test_metadata_with_a_selected_cluster() -> None:
    spec = {"clusterSelector": {"ray.io/cluster": "c"}, "metadata": {"b": "2", "a": "1"}, "entrypoint": "x"}
    assert after(command(spec), "--metadata-json") == '"{\\"a\\":\\"1\\",\\"b\\":\\"2\\"}"'


@pytest.mark.parametrize(
    ("options", "login", "bundle"), [("c", False, "-c"), ("c", True, "-cl"), ("e", False, "-ce"), ("e", True, "-cel")]
)
def test_bash_options(options: str, login: bool, bundle: str) -> None:
    assert shell(options, login) == ["/bin/bash", bundle, "--"]


def template(login: bool = False, cluster: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    raw = {"headGroupSpec": HEAD, **(cluster or {})}
    obj = from_dict(RAYCLUSTER, {"metadata": {"name": "c", "namespace": "ns"}, "spec": raw})
    assert isinstance(obj, RayObject)
    typed = RayJobSpec.parse({"entrypoint": "x", **spec})
    return submitter_template(typed, job="j", cluster=obj, dashboard_url="test-url", job_id="test-job-id", login=login)


def test_the_default_submitter() -> None:
    built = template()
    (container,) = built["spec"]["containers"]
    assert built["spec"]["restartPolicy"] == "Never"
    assert (container["name"], container["image"]) == ("ray-job-submitter", "ray:head")
    assert container["command"] == ["/bin/bash", "-ce", "--"]
    (line,) = container["args"]
    assert line.count("--address http://test-url ") == 3
    assert "urlopen('http://test-url/api/gcs_healthz'" in line
    assert "--no-wait --submission-id test-job-id -- x ;" in line
    assert container["env"] == [
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": "test-url"},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": "test-job-id"},
    ]
    assert template(login=True)["spec"]["containers"][0]["command"] == ["/bin/bash", "-cel", "--"]


def test_the_users_command_is_kept() -> None:
    own = {"spec": {"containers": [{"name": "s", "command": ["user-command"], "args": ["a"]}, {"name": "side"}]}}
    first, second = template(submitterPodTemplate=own)["spec"]["containers"]
    assert (first["command"], first["args"], len(first["env"])) == (["user-command"], ["a"], 3)
    assert second == {"name": "side"}
    assert "env" not in own["spec"]["containers"][0], "the spec's own template was changed"


def test_the_users_arguments_without_command_are_replaced() -> None:
    own = {"spec": {"containers": [{"name": "s", "args": ["lost"]}]}, "metadata": {"labels": {"mine": "1"}}}
    built = template(submitterPodTemplate=own)
    assert built["spec"]["containers"][0]["command"] == ["/bin/bash", "-ce", "--"]
    assert built["spec"]["containers"][0]["args"] != ["lost"]
    assert "restartPolicy" not in built["spec"]
    assert built["metadata"]["labels"] == {
        "mine": "1",
        "ray.io/originated-from-cr-name": "j",
        "ray.io/originated-from-crd": "RayJob",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def test_a_template_without_containers_is_left_to_the_api_server() -> None:
    assert template(submitterPodTemplate={"spec": {}})["spec"] == {}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"mode": "token"}, ["RAY_AUTH_MODE", "RAY_AUTH_TOKEN"]),
        ({"mode": "token", "secretName": "own"}, ["RAY_AUTH_MODE", "RAY_AUTH_TOKEN"]),
        ({"mode": "token", "enableK8sTokenAuth": True}, ["RAY_AUTH_MODE", "RAY_ENABLE_K8S_TOKEN_AUTH"]),
        ({"mode": "disabled"}, []),
    ],
)
def test_token_authentication(options: dict[str, Any], names: list[str]) -> None:
    pod = template(cluster={"authOptions": options})["spec"]
    container = pod["containers"][0]
    added = container["env"][3:]
    assert [entry["name"] for entry in added] == names
    if options.get("enableK8sTokenAuth"):
        assert container["volumeMounts"][0]["mountPath"] == "/var/run/secrets/ray.io/serviceaccount"
        assert pod["volumes"][0]["name"] == "ray-token"
    elif names:
        secret = added[1]["valueFrom"]["secretKeyRef"]
        assert secret == {"name": options.get("secretName", "c"), "key": "auth_token"}


@pytest.mark.parametrize(
    ("config", "limit"), [(None, 2), ({}, 2), ({"backoffLimit": 0}, 0), ({"backoffLimit": 88}, 88)]
)
def test_the_submitter_job(config: dict[str, Any] | None, limit: int) -> None:
    owner = from_dict(RAYJOB, {"metadata": {"name": "j", "namespace": "ns", "uid": "u"}})
    assert isinstance(owner, RayObject)
    job = submitter_job(owner, RayJobSpec.parse({"submitterConfig": config}), template())
    assert job["spec"]["backoffLimit"] == limit
    labels = job["metadata"]["labels"]
    assert labels["ray.io/originated-from-cr-name"] == "j"
    assert labels["ray.io/originated-from-crd"] == "RayJob"
    assert labels == job["spec"]["template"]["metadata"]["labels"]
    assert job["metadata"]["ownerReferences"][0]["controller"] is True


def test_the_body_of_a_submission_over_http() -> None:
    spec = RayJobSpec.parse(
        {
            "entrypoint": " x ",
            "runtimeEnvYAML": "working_dir: ./\npip: [a]\nenv_vars: {k: v}\neager_install: true",
            "entrypointNumCpus": 1.1,
            "entrypointNumGpus": 2.2,
            "entrypointResources": '{"r1": 0.1, "r2": 0.2}',
        }
    )
    body = submit_request(spec, "id")
    assert len(body["runtime_env"]) == 4
    assert body["runtime_env"]["working_dir"] == "./"
    assert (body["entrypoint"], body["submission_id"]) == (" x ", "id")
    assert (body["entrypoint_num_cpus"], body["entrypoint_num_gpus"]) == (1.1, 2.2)
    assert body["entrypoint_resources"] == {"r1": 0.1, "r2": 0.2}
    assert submit_request(RayJobSpec.parse({}), "") == {"entrypoint": ""}


def test_the_users_id_is_one_word_to_the_shell() -> None:
    tokens = command(BJ, job_id="a b; echo $HOME")
    assert after(tokens, "--submission-id") == "'a b; echo $HOME'"
    assert tokens.count("'a b; echo $HOME'") == 3
    assert submit_request(RayJobSpec.parse({}), "a b")["submission_id"] == "a b"


def test_resources_of_several_lines_stay_json() -> None:
    tokens = command({**BJ, "entrypointResources": '{\n  "a": 1,\n  "b": 0.5\n}\n'})
    assert after(tokens, "--entrypoint-resources") == '"{\\"a\\": 1, \\"b\\": 0.5}"'
    broken = command({**BJ, "entrypointResources": "{\n"})
    assert after(broken, "--entrypoint-resources") == '"{\\n"'


def test_a_runtime_environment_of_nothing_is_null_for_the_client_and_absent_over_http() -> None:
    for text in ("null", "# nothing\n"):
        assert after(command({**BJ, "runtimeEnvYAML": text}), "--runtime-env-json") == '"null"'
        assert "runtime_env" not in submit_request(RayJobSpec.parse({"runtimeEnvYAML": text}), "id")


def test_numbers_are_sent_as_numbers() -> None:
    spec = {"entrypointNumCpus": 1, "entrypointNumGpus": 0, "entrypointResources": '{"r": 2}', "metadata": {"n": "1"}}
    body = submit_request(RayJobSpec.parse(spec), "id")
    assert json.loads(json.dumps(body)) == {
        "entrypoint": "",
        "submission_id": "id",
        "entrypoint_num_cpus": 1,
        "entrypoint_resources": {"r": 2},
        "metadata": {"n": "1"},
    }


@pytest.mark.parametrize("text", ['{"r1": "string"}', "[1]", "{", '{"r1": true}', '{"r1": NaN}', "[" * 100_000])
def test_resources_must_be_numbers(text: str) -> None:
    with pytest.raises(SubmitCommandError, match=r"spec\.entrypointResources"):
        submit_request(RayJobSpec.parse({"entrypointResources": text}), "")


def test_bad_yaml_names_its_field() -> None:
    with pytest.raises(SubmitCommandError, match=r"spec\.runtimeEnvYAML cannot be read"):
        load_runtime_env("a: [")
