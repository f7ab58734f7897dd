"""What of a ``serveConfigV2`` is refused, where it is said to be wrong, and what Serve is sent (spec rayservice.md 2.9-2.10).

Each text that is refused here for its schema is refused by ``ServeDeploySchema`` of Ray 2.60, and each that passes is taken.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from kuberay.api.serve_config import (
    ServeConfigError,
    application_names,
    load_serve_config,
    serve_body,
    serve_config_problems,
)

APP = "applications:\n- import_path: m:app\n"


def app(more: str) -> str:
    """A configuration of one application with *more* fields of it."""
    return APP + "".join(f"  {line}\n" for line in more.split("\n"))


def deployment(more: str) -> str:
    return app("deployments:\n- name: D\n" + "\n".join(f"  {line}" for line in more.split("\n")))


def told(text: str) -> list[str]:
    problems = serve_config_problems(text)
    assert {problem.path for problem in problems} <= {"spec.serveConfigV2"}
    assert all(str(problem).startswith("spec.serveConfigV2: ") for problem in problems)
    return [problem.message for problem in problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty; it must name the applications that Serve is to run"),
        ("# nothing\n", "it is empty; it must name the applications that Serve is to run"),
        ("{}", "it is empty; it must name the applications that Serve is to run"),
        (": : [", "line 1, column 1: while parsing a block mapping: expected <block end>, but found ':'"),
        ("applications:\n- name: a\n  b: c: d\n", "line 3, column 7: mapping values are not allowed here"),
        ("applications:\n\t- name: a\n", "line 2, column 1: while scanning for the next token: found character '\\t'"),
        ("- a", "it must be a mapping, not a list"),
        ("a: &a [*a]", "it contains itself"),
        ("a: .nan", "a float of its values cannot be written as JSON"),
        ("import_path: a:b", "applications is missing: this is the format of older versions of Ray"),
        ("a: 1", "applications is missing"),
        ("applications: null", "applications must be a list, not null"),
        ("applications: {}", "applications must be a list, not a mapping"),
        ("applications: [null]", "applications[0] must be a mapping, not null"),
        ("applications:\n- name: a", "applications[0].import_path is missing"),
        (f"{APP}- import_path: [a]", "applications[1].import_path must be a string, not a list"),
        (f"{APP}- import_path: null", "applications[1].import_path must be a string, not null"),
        (f"{APP}- import_path: app", "applications[1].import_path must be written as module:application or"),
        (f"{APP}- import_path: ''", "applications[1].import_path must be written as module:application or"),
        (f"{APP}- import_path: app.", "applications[1].import_path must be written as module:application or"),
        (f"{APP}- import_path: .app", "applications[1].import_path must be written as module:application or"),
        (f"{APP}- import_path: a:b:c", "applications[1].import_path must have one colon at most; it is 'a:b:c'"),
        (f"{APP}- import_path: ':b'", "applications[1].import_path must name a module and, after the colon, what"),
        (f"{APP}- import_path: 'a:'", "applications[1].import_path must name a module and, after the colon, what"),
        (f"{APP}- import_path: a:b", "applications[1].name is 'default' (it is so where none is given), as that of"),
        (
            "applications:\n- {name: x, import_path: a:b}\n- {name: x, import_path: a:b, route_prefix: /x}",
            "applications[1].name is 'x', as that of applications[0]; each needs its own",
        ),
        (
            "applications:\n- {name: x, import_path: a:b}\n- {name: y, import_path: a:b}",
            "applications[1].route_prefix is '/' (it is so where none is given), as that of application 'x'; each",
        ),
        (
            "applications:\n- {name: x, route_prefix: /a, import_path: a:b}\n- {name: y, route_prefix: /a, import_path: a:b}",
            "applications[1].route_prefix is '/a', as that of application 'x'; each needs its own",
        ),
        (app("name: ''"), "applications[0].name must not be empty"),
        (app("name: null"), "applications[0].name must be a string, not null"),
        (app("route_prefix: a"), "applications[0].route_prefix must begin with /; it is 'a'"),
        (app("route_prefix: {a: b}"), "applications[0].route_prefix must be a string, not a mapping"),
        (app("host: h"), "applications[0].host must be given once for all applications, as http_options.host"),
        (app("port: 1"), "applications[0].port must be given once for all applications, as http_options.port"),
        (app("args: null"), "applications[0].args must be a mapping, not null"),
        (app("args: [1]"), "applications[0].args must be a mapping, not a list"),
        (app("runtime_env: null"), "applications[0].runtime_env must be a mapping, not null"),
        (app("runtime_env: {working_dir: .}"), "applications[0].runtime_env.working_dir must be a URI, such as"),
        (app("runtime_env: {py_modules: [/a]}"), "applications[0].runtime_env.py_modules[0] must be a URI, such as"),
        (app("runtime_env: {py_modules: [1]}"), "applications[0].runtime_env.py_modules[0] must be a URI, not 1"),
        (app("runtime_env: {py_modules: 's3://b'}"), "applications[0].runtime_env.py_modules must be a list, not the"),
        (app("runtime_env: {working_dir: 'http://['}"), "applications[0].runtime_env.working_dir must be a URI, such"),
        (
            app("logging_config: {log_level: debug}"),
            "applications[0].logging_config.log_level must be one of CRITICAL,",
        ),
        (app("logging_config: {log_level: 5}"), "applications[0].logging_config.log_level must be one of CRITICAL,"),
        (app("logging_config: {encoding: yaml}"), "applications[0].logging_config.encoding must be one of TEXT, JSON,"),
        (
            app("logging_config: {enable_access_log: 2}"),
            "applications[0].logging_config.enable_access_log must be true",
        ),
        (
            app("logging_config: {logs_dir: [a]}"),
            "applications[0].logging_config.logs_dir must be a string, not a list",
        ),
        (app("deployments: null"), "applications[0].deployments must be a list, not null"),
        (app("deployments: [x]"), "applications[0].deployments[0] must be a mapping, not the text 'x'"),
        (app("deployments: [{}]"), "applications[0].deployments[0].name is missing"),
        (f"{APP}proxy_location: Nowhere", "proxy_location must be one of Disabled, HeadOnly, EveryNode, not the text"),
        (f"{APP}http_options: null", "http_options must be a mapping, not null"),
        (f"{APP}http_options: {{port: x}}", "http_options.port must be a number, not the text 'x'"),
        (f"{APP}http_options: {{port: 70000}}", "http_options.port must be 65535 or less, not 70000"),
        (f"{APP}http_options: {{root_path: null}}", "http_options.root_path must be a string, not null"),
        (f"{APP}grpc_options: {{grpc_servicer_functions: x}}", "grpc_options.grpc_servicer_functions must be a list,"),
        (f"{APP}target_capacity: 101", "target_capacity must be 100 or less, not 101"),
        (f"{APP}target_capacity: [1]", "target_capacity must be a number, not a list"),
        (f"{APP}logging_config: x", "logging_config must be a mapping, not the text 'x'"),
        (
            app(f"name: x\nroute_prefix: {'r' * 500}"),
            f"applications[0].route_prefix must begin with /; it is '{'r' * 80}…'",
        ),
    ],
    ids=lambda value: value.removeprefix(APP)[:60],
)
def test_refused(text: str, message: str) -> None:
    [found] = told(text)
    assert found.startswith(message)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("fields", "field", "what"),
    [
        ("num_replicas: 0", "num_replicas", "must be 1 or more, or auto, not 0"),
        ("num_replicas: many", "num_replicas", "must be 1 or more, or auto, not the text 'many'"),
        ("num_replicas: [1]", "num_replicas", "must be 1 or more, or auto, not a list"),
        (
            "num_replicas: 2\nautoscaling_config: {}",
            "num_replicas",
            "must be left out, or be auto, where autoscaling_c",
        ),
        ("max_ongoing_requests: 0", "max_ongoing_requests", "must be more than 0, not 0"),
        ("max_queued_requests: 0", "max_queued_requests", "must be -1, for no limit, or a whole number of 1 or more,"),
        (
            "max_queued_requests: '5'",
            "max_queued_requests",
            "must be -1, for no limit, or a whole number of 1 or more,",
        ),
        (
            "max_queued_requests: true",
            "max_queued_requests",
            "must be -1, for no limit, or a whole number of 1 or more,",
        ),
        ("user_config: x", "user_config", "must be a mapping, not the text 'x'"),
        ("autoscaling_config: x", "autoscaling_config", "must be a mapping, not the text 'x'"),
        ("autoscaling_config: {min_replicas: -1}", "autoscaling_config.min_replicas", "must be 0 or more, not -1"),
        ("autoscaling_config: {max_replicas: 0}", "autoscaling_config.max_replicas", "must be 1 or more, not 0"),
        (
            "autoscaling_config: {min_replicas: 3, max_replicas: 2}",
            "autoscaling_config.max_replicas",
            "must not be less than min_replicas, which is 3; it is 2",
        ),
        (
            "autoscaling_config: {min_replicas: 3, initial_replicas: 2}",
            "autoscaling_config.initial_replicas",
            "must not be less than min_replicas, which is 3; it is 2",
        ),
        (
            "autoscaling_config: {initial_replicas: 5, max_replicas: 2}",
            "autoscaling_config.initial_replicas",
            "must not be more than max_replicas, which is 2; it is 5",
        ),
        ("graceful_shutdown_timeout_s: -1", "graceful_shutdown_timeout_s", "must be 0 or more, not -1"),
        ("health_check_period_s: 0", "health_check_period_s", "must be more than 0, not 0"),
        ("ray_actor_options: {num_cpus: -1}", "ray_actor_options.num_cpus", "must be 0 or more, not -1"),
        ("ray_actor_options: {memory: x}", "ray_actor_options.memory", "must be a number, not the text 'x'"),
        ("ray_actor_options: {resources: x}", "ray_actor_options.resources", "must be a mapping, not the text 'x'"),
        (
            "ray_actor_options: {runtime_env: {working_dir: .}}",
            "ray_actor_options.runtime_env.working_dir",
            "must be a URI, such as https://… or s3://…, not '.': Serve does not take a path",
        ),
        ("placement_group_bundles: [x]", "placement_group_bundles[0]", "must be a mapping, not the text 'x'"),
        ("max_replicas_per_node: 101", "max_replicas_per_node", "must be 100 or less, not 101"),
        (
            "max_replicas_per_node: 1\nplacement_group_bundles: [{CPU: 1}]",
            "max_replicas_per_node",
            "cannot be given together with placement_group_bundles",
        ),
        ("logging_config: {encoding: x}", "logging_config.encoding", "must be one of TEXT, JSON, not the text 'x'"),
    ],
)
def test_refused_deployment(fields: str, field: str, what: str) -> None:
    [found] = told(deployment(fields))
    assert found.startswith(f"applications[0].deployments[0].{field} {what}")


@pytest.mark.parametrize(
    "text",
    [
        APP,
        "applications: []",
        '{"applications": [{"import_path": "m:app"}]}',
        "applications:\n- {import_path: a:b, name: x}\n- {import_path: a:b, name: y, route_prefix: null}\n"
        "- {import_path: a.b.c, name: z, route_prefix: /z}",
        app("route_prefix: null"),
        app("args: {}\nlogging_config: null\nruntime_env: {working_dir: null}"),
        app("logging_config: {log_level: WARNING, encoding: JSON, logs_dir: null, enable_access_log: 'yes'}"),
        app("logging_config: {log_level: 20, enable_access_log: 1}"),
        app("runtime_env: {working_dir: 'https://x/y.zip', py_modules: ['s3://a/b.zip'], pip: [a]}"),
        deployment(
            "num_replicas: auto\nautoscaling_config: {min_replicas: 0, initial_replicas: null, max_replicas: 3}"
        ),
        deployment("num_replicas: null\nuser_config: null\nautoscaling_config: null"),
        deployment("max_ongoing_requests: '5'\nmax_queued_requests: -1\nhealth_check_period_s: 0.5"),
        deployment("ray_actor_options: {num_cpus: null, num_gpus: 0.5, resources: {a: 1}}"),
        deployment("placement_group_bundles: [{CPU: 1}]\nplacement_group_strategy: PACK"),
        f"{APP}proxy_location: HeadOnly\ntarget_capacity: 50.5",
        f"{APP}http_options: {{host: 0.0.0.0, port: 8000, request_timeout_s: null, root_path: ''}}",
        f"{APP}grpc_options: {{port: 9000, grpc_servicer_functions: [a.b], request_timeout_s: null}}",
    ],
)
def test_taken(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize("text", [f"{APP}brand_new: 1", app("brand_new: [1]"), deployment("brand_new: {a: 1}")])
def test_fields_of_newer_versions_are_taken(text: str) -> None:
    assert told(text) == []
    assert "brand_new" in serve_body(text)


def test_every_problem_is_told_in_the_order_of_the_text_up_to_twenty() -> None:
    assert told("applications:\n- {name: a}\n- {import_path: a:b, route_prefix: c, args: 1}") == [
        "applications[0].import_path is missing",
        "applications[1].route_prefix must begin with /; it is 'c'",
        "applications[1].args must be a mapping, not 1",
    ]
    assert len(told("applications: [" + "x, " * 100 + "]")) == 20


def test_numbers_are_read_as_kubernetes_reads_them() -> None:
    text = deployment(
        "user_config: {i: 1, f: 1.5, e: 1e3, o: 010, t: 12:30, d: 2024-01-01, y: yes, big: 9007199254740993}"
    )
    [deployed] = load_serve_config(text)["applications"][0]["deployments"]
    assert deployed["user_config"] == {
        "i": 1,
        "f": 1.5,
        "e": 1000.0,
        "o": 8,
        "t": "12:30",
        "d": "2024-01-01",
        "y": True,
        "big": 9007199254740993,
    }


@pytest.mark.parametrize(
    ("more", "capacity", "wanted"),
    [("", None, None), ("target_capacity: 40\n", None, 40), ("", 0, 0), ("target_capacity: 40\n", 70, 70)],
)
def test_body(more: str, capacity: int | None, wanted: int | None) -> None:
    body: dict[str, Any] = json.loads(serve_body(deployment("num_replicas: 2") + more, capacity))
    assert body.pop("target_capacity", None) == wanted
    assert body == {"applications": [{"import_path": "m:app", "deployments": [{"name": "D", "num_replicas": 2}]}]}
    assert '"num_replicas":2}' in serve_body(deployment("num_replicas: 2"))


def test_a_capacity_is_put_into_one_body_only() -> None:
    text = deployment("num_replicas: 3")
    serve_body(text, 10)
    assert "target_capacity" not in serve_body(text)
    assert "target_capacity" not in load_serve_config(text)


def test_a_body_of_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ServeConfigError, match="line 1, column 5: "):
        serve_body("a: [")
    assert serve_body("") == "{}"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (APP, ("default",)),
        ("applications:\n- {name: b, import_path: m:b}\n- {name: a, import_path: m:a}", ("b", "a")),
        ("applications: [x]", ()),
        ("applications: []", ()),
        ("applications: 1", ()),
        ("a: [", ()),
        ("", ()),
    ],
)
def test_names_of_applications(text: str, names: tuple[str, ...]) -> None:
    assert application_names(text) == names
