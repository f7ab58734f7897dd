"""What Ray Serve certainly refuses in a configuration of applications, field by field (Ray's ``ServeDeploySchema``).

Versions of Ray differ. What any of them may take passes: fields that are not known here, numbers written as text, null
where some version has null for a default. Serve has the last word on all that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlparse

Found = tuple[str, str]
"""Where it is, as ``applications[1].import_path``, and what is wrong with it; where is empty for the whole."""
Rule = Callable[[Any, str], Iterator[Found]]

_MOST_SHOWN = 80
"""Letters of a value that a message repeats."""
_DEFAULT_NAME = "default"
_DEFAULT_ROUTE = "/"
_TRUE_OR_FALSE = frozenset(("0", "1", "off", "on", "f", "t", "false", "true", "n", "y", "no", "yes"))
_LOG_LEVELS = ("CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET")


def schema_problems(config: Mapping[str, Any]) -> Iterator[Found]:
    """All that is wrong with *config*, in the order of its fields here."""
    if "applications" not in config and "import_path" in config:
        yield (
            "applications",
            "is missing: this is the format of older versions of Ray, for one application; put it into a list that is"
            " called applications",
        )
        return
    yield from _DEPLOY(config, "")


def application_name(application: Mapping[str, Any]) -> str:
    """The name under which Serve runs an application."""
    return str(application.get("name", _DEFAULT_NAME))


# --- kinds of values -------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"the text {_short(value)}" if isinstance(value, str) else f"{value!r}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def _text(value: Any, path: str) -> Iterator[Found]:
    if value is None or isinstance(value, Mapping | list):
        yield path, f"must be a string, not {_kind(value)}"


def _flag(value: Any, path: str) -> Iterator[Found]:
    fits = isinstance(value, bool) or (
        isinstance(value, int | float | str) and str(value).lower().removesuffix(".0") in _TRUE_OR_FALSE
    )
    if not fits:
        yield path, f"must be true or false, not {_kind(value)}"


def _number(low: float | None = None, high: float | None = None, *, above: float | None = None) -> Rule:
    """A number within limits; *above* is a limit that is not reached."""

    def check(value: Any, path: str) -> Iterator[Found]:
        number = _read_number(value)
        if number is None:
            yield path, f"must be a number, not {_kind(value)}"
        elif low is not None and number < low:
            yield path, f"must be {low:g} or more, not {_kind(value)}"
        elif high is not None and number > high:
            yield path, f"must be {high:g} or less, not {_kind(value)}"
        elif above is not None and number <= above:
            yield path, f"must be more than {above:g}, not {_kind(value)}"

    return check


def _read_number(value: Any) -> float | None:
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _choice(*allowed: str) -> Rule:
    def check(value: Any, path: str) -> Iterator[Found]:
        if value not in allowed:
            yield path, f"must be one of {', '.join(allowed)}, not {_kind(value)}"

    return check


def _or_null(rule: Rule) -> Rule:
    def check(value: Any, path: str) -> Iterator[Found]:
        if value is not None:
            yield from rule(value, path)

    return check


def _list(item: Rule) -> Rule:
    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, list):
            yield path, f"must be a list, not {_kind(value)}"
            return
        for index, each in enumerate(value):
            yield from item(each, f"{path}[{index}]")

    return check


def _object(
    fields: Mapping[str, Rule],
    *,
    required: Sequence[str] = (),
    more: Callable[[Mapping[str, Any], str], Iterator[Found]] | None = None,
) -> Rule:
    """A mapping with at least the *required* fields; *more* looks at it as a whole once every field fits."""

    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, Mapping):
            yield path, f"must be a mapping, not {_kind(value)}"
            return
        below = f"{path}." if path else ""
        wrong = False
        for name in required:
            if name not in value:
                wrong = True
                yield f"{below}{name}", "is missing"
        for name, rule in fields.items():
            if name in value:
                for found in rule(value[name], f"{below}{name}"):
                    wrong = True
                    yield found
        if more is not None and not wrong:
            yield from more(value, path)

    return check


def _mapping(value: Any, path: str) -> Iterator[Found]:
    # Some versions take an empty list for an empty mapping.
    if not isinstance(value, Mapping) and value != []:
        yield path, f"must be a mapping, not {_kind(value)}"


# --- fields with rules of their own ----------------------------------------------------------------------------------


def _import_path(value: Any, path: str) -> Iterator[Found]:
    yield from _text(value, path)
    if not isinstance(value, str):
        return
    if ":" in value:
        if value.count(":") > 1:
            yield path, f"must have one colon at most; it is {_short(value)}"
        elif value.startswith(":") or value.endswith(":"):
            yield path, f"must name a module and, after the colon, what is in it; it is {_short(value)}"
    elif "." not in value[1:-1] or value[-1:] == ".":
        yield path, f"must be written as module:application or module.application; it is {_short(value)}"


def _route(value: Any, path: str) -> Iterator[Found]:
    yield from _text(value, path)
    if not isinstance(value, str):
        return
    if not value.startswith("/"):
        # Newer versions of Ray mind a / at the end and braces as well.
        yield path, f"must begin with /; it is {_short(value)}"


def _uri(value: Any, path: str) -> Iterator[Found]:
    if not isinstance(value, str):
        yield path, f"must be a URI, not {_kind(value)}"
    elif not _scheme(value):
        yield path, f"must be a URI, such as https://… or s3://…, not {_short(value)}: Serve does not take a path"


def _scheme(value: str) -> str:
    try:
        return urlparse(value).scheme
    except ValueError:
        return ""


def _log_level(value: Any, path: str) -> Iterator[Found]:
    number = _read_number(value)
    if value not in _LOG_LEVELS and (number is None or number not in (0, 10, 20, 30, 40, 50)):
        yield path, f"must be one of {', '.join(_LOG_LEVELS)}, not {_kind(value)}"


def _replicas(value: Any, path: str) -> Iterator[Found]:
    number = _read_number(value)
    if value != "auto" and (number is None or number < 1):
        yield path, f"must be 1 or more, or auto, not {_kind(value)}"


def _queued(value: Any, path: str) -> Iterator[Found]:
    if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != -1):
        yield path, f"must be -1, for no limit, or a whole number of 1 or more, not {_kind(value)}"


def _application_id(value: Any, path: str) -> Iterator[Found]:
    yield from _text(value, path)
    if value == "":
        yield path, "must not be empty"


# --- the whole, from below -------------------------------------------------------------------------------------------


def _autoscaling_limits(config: Mapping[str, Any], path: str) -> Iterator[Found]:
    least, first, most = (
        _read_number(config.get(name)) for name in ("min_replicas", "initial_replicas", "max_replicas")
    )
    # What is not given may come from the code, so only what stands here is compared.
    if least is not None and most is not None and most < least:
        yield f"{path}.max_replicas", f"must not be less than min_replicas, which is {least:g}; it is {most:g}"
    elif first is not None and least is not None and first < least:
        yield f"{path}.initial_replicas", f"must not be less than min_replicas, which is {least:g}; it is {first:g}"
    elif first is not None and most is not None and first > most:
        yield f"{path}.initial_replicas", f"must not be more than max_replicas, which is {most:g}; it is {first:g}"


def _deployment_as_a_whole(deployment: Mapping[str, Any], path: str) -> Iterator[Found]:
    if isinstance(deployment.get("num_replicas"), int) and deployment.get("autoscaling_config") is not None:
        yield f"{path}.num_replicas", "must be left out, or be auto, where autoscaling_config is given"
    if deployment.get("max_replicas_per_node") is not None and deployment.get("placement_group_bundles") is not None:
        yield f"{path}.max_replicas_per_node", "cannot be given together with placement_group_bundles"


def _application_as_a_whole(application: Mapping[str, Any], path: str) -> Iterator[Found]:
    for name in ("host", "port"):
        if name in application:
            yield f"{path}.{name}", f"must be given once for all applications, as http_options.{name}"


def _deploy_as_a_whole(config: Mapping[str, Any], path: str) -> Iterator[Found]:
    names: dict[str, int] = {}
    routes: dict[str, str] = {}
    for index, application in enumerate(config["applications"]):
        where, name = f"applications[{index}]", application_name(application)
        if name in names:
            given = "" if "name" in application else " (it is so where none is given)"
            yield (
                f"{where}.name",
                f"is {_short(name)}{given}, as that of applications[{names[name]}]; each needs its own",
            )
            continue
        names[name] = index
        route = application.get("route_prefix", _DEFAULT_ROUTE)
        if route is None:
            continue
        if route in routes:
            given = "" if "route_prefix" in application else " (it is so where none is given)"
            yield (
                f"{where}.route_prefix",
                f"is {_short(route)}{given}, as that of application {_short(routes[route])}; each needs its own",
            )
            continue
        routes[route] = name


_RUNTIME_ENV = _object({"working_dir": _or_null(_uri), "py_modules": _or_null(_list(_or_null(_uri)))})

_LOGGING = _object(
    {
        "encoding": _choice("TEXT", "JSON"),
        "log_level": _log_level,
        "logs_dir": _or_null(_text),
        "enable_access_log": _flag,
        "additional_log_standard_attrs": _list(_text),
    }
)

_ACTOR_OPTIONS = _object(
    {
        "runtime_env": _RUNTIME_ENV,
        **dict.fromkeys(("num_cpus", "num_gpus", "memory"), _or_null(_number(0))),
        "resources": _mapping,
        "accelerator_type": _or_null(_text),
    }
)

_AUTOSCALING = _object(
    {
        "min_replicas": _or_null(_number(0)),
        "initial_replicas": _or_null(_number(0)),
        "max_replicas": _or_null(_number(1)),
        "target_ongoing_requests": _or_null(_number(above=0)),
        "upscale_delay_s": _or_null(_number(0)),
        "downscale_delay_s": _or_null(_number(0)),
    },
    more=_autoscaling_limits,
)

_DEPLOYMENT = _object(
    {
        "name": _text,
        "num_replicas": _or_null(_replicas),
        "max_ongoing_requests": _or_null(_number(above=0)),
        "max_queued_requests": _or_null(_queued),
        "user_config": _or_null(_mapping),
        "autoscaling_config": _or_null(_AUTOSCALING),
        "graceful_shutdown_wait_loop_s": _or_null(_number(0)),
        "graceful_shutdown_timeout_s": _or_null(_number(0)),
        "health_check_period_s": _or_null(_number(above=0)),
        "health_check_timeout_s": _or_null(_number(above=0)),
        "ray_actor_options": _or_null(_ACTOR_OPTIONS),
        "placement_group_bundles": _or_null(_list(_mapping)),
        "placement_group_strategy": _or_null(_text),
        "max_replicas_per_node": _or_null(_number(1, 100)),
        "logging_config": _or_null(_LOGGING),
    },
    required=("name",),
    more=_deployment_as_a_whole,
)

_APPLICATION = _object(
    {
        "name": _application_id,
        "route_prefix": _or_null(_route),
        "import_path": _import_path,
        "runtime_env": _RUNTIME_ENV,
        "deployments": _list(_DEPLOYMENT),
        "args": _mapping,
        "logging_config": _or_null(_LOGGING),
    },
    required=("import_path",),
    more=_application_as_a_whole,
)

_PORT = _number(0, 65535)

_DEPLOY = _object(
    {
        "proxy_location": _choice("Disabled", "HeadOnly", "EveryNode"),
        "http_options": _object(
            {
                "host": _or_null(_text),
                "port": _PORT,
                "root_path": _text,
                "request_timeout_s": _or_null(_number()),
                "keep_alive_timeout_s": _number(),
            }
        ),
        "grpc_options": _object(
            {
                "port": _PORT,
                "grpc_servicer_functions": _list(_text),
                "request_timeout_s": _or_null(_number()),
            }
        ),
        "logging_config": _or_null(_LOGGING),
        "target_capacity": _or_null(_number(0, 100)),
        "applications": _list(_APPLICATION),
    },
    required=("applications",),
    more=_deploy_as_a_whole,
)
