"""Everything the operator can be told: KubeRay's flags and its configuration file, in one model; variables are `environment`'s.

Precedence and names are KubeRay's (operator.md 2, 3, 9): with ``--config`` the file decides and most flags are ignored;
environment variables always count. Keys that KubeRay has and ignores are honoured where they have an obvious meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from kuberay.api import quantity
from kuberay.api.gates import DEFAULT_GATES, GATE_PLUGINS
from kuberay.api.validation.leaving import MAX_DRAIN_SECONDS
from kuberay.operator.environment import read_environment
from kuberay.operator.listen import check_loopback
from kuberay.operator.log_levels import Level
from kuberay.plugins.gates import core_gate

API_VERSION = "config.ray.io/v1alpha1"
KIND = "Configuration"

DEFAULT_PLUGINS = ("autoscaler-v2", "gateway-upgrade")
"""On unless ``plugins.enabled`` says otherwise, as far as they are installed: KubeRay has them built in."""

PLUGIN_OF_GATE = {gate: plugin for gate, plugin in GATE_PLUGINS.items() if plugin and not DEFAULT_GATES[gate]}
"""Gates that somebody switches on for the sake of their plugin: one that is on turns the plugin on, as far as it is installed."""

Encoder = Literal["json", "console"]


class SettingsError(Exception):
    """What is wrong with the settings, in one sentence; ends start-up with exit code 1."""


class PluginSettings(BaseModel):
    """Which plugins are on, and their own sections."""

    model_config = ConfigDict(extra="allow")

    enabled: list[str] | None = None
    """Entry point names of the plugins to load. Default: ``autoscaler-v2`` and ``gateway-upgrade``, as far as they are
    installed. A batch scheduler chosen with ``batchScheduler`` is added, and so is the plugin of a feature gate that is on
    (``networkpolicy``, ``mtls``), as far as it is installed. A name that is not installed is an error."""


class WaitGcsReadyResources(BaseModel):
    """Requests and limits of the ``wait-gcs-ready`` init container."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    cpu: str = "200m"
    memory: str = "256Mi"

    @field_validator("cpu", "memory")
    @classmethod
    def _more_than_nothing(cls, value: str) -> str:
        if quantity.parse(value) <= 0:
            raise ValueError("it must be greater than 0")
        return value


class Settings(BaseModel):
    """The configuration file's keys; flags carry the same names in kebab case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    metrics_addr: str = ":8080"
    """Listener of ``/metrics``; ``0`` turns it off. Default as KubeRay's, whose shipped probes use it."""
    probe_addr: str = ":8082"
    """Listener of ``/livez``, ``/healthz`` and ``/readyz``."""
    enable_leader_election: bool = True
    """Whether to hold the Lease ``ray-operator-leader`` before acting. Turn off only for a single local process."""
    leader_election_namespace: str = ""
    """Namespace of the Lease; empty means the operator pod's own."""
    reconcile_concurrency: int = Field(default=1, ge=0)
    """Each unit allows 16 objects to be worked on at once: a worker here is a coroutine that mostly waits for its own
    writes, where KubeRay's is a thread. 0 counts as 1."""
    qps: float = Field(default=0, ge=0)
    """Requests per second to the API server, client wide; 0 means no limit of our own. KubeRay's default is 100; today's
    API servers ration clients themselves, and throttled requests are repeated when the server says so."""
    burst: int = Field(default=200, ge=0)
    """How many requests may go at once when ``qps`` is set."""
    watch_namespace: str = ""
    """Comma-separated namespaces to serve; empty means all."""
    secret_namespaces: str = "*"  # noqa: S105 - namespaces
    """Comma-separated namespaces in which the operator may read and make Secrets; ``*``, the default as in KubeRay: wherever it
    works; empty: nowhere. It needs them for ``authOptions`` with the mode ``token`` and for the own authorities of ``mtls``;
    elsewhere RayClusters that ask for these are refused or wait, and say so. Not KubeRay's."""
    log_file: str = ""
    """Also write the log to this file."""
    log_file_encoder: Encoder = "json"
    log_stdout_encoder: Encoder = "json"
    """``json`` (one object a line) or ``console``. Logs go to standard error."""
    log_level: Level = "info"
    """What is logged at least."""
    log_levels: dict[str, Level] = Field(default_factory=dict)
    """Other levels for some loggers and those below them, such as ``kuberay.kube: debug``. Names are those under ``component``,
    or else ``logger``, of a line. Default: ``kopf`` and ``aiohttp.access`` at ``warning``. Not KubeRay's."""
    profiling_addr: str = "0"
    """Listener of profiles, heap snapshots and the like, for whoever may forward a port of the operator's pod: an address of
    the loopback interface, such as ``127.0.0.1:6060``; ``0``: none. Others are refused, since there is no log-in. Not KubeRay's."""
    batch_scheduler: str = ""
    """``volcano``, ``yunikorn``, ``scheduler-plugins``, ``kai-scheduler``, or the entry point name of any other installed
    plugin that is a batch scheduler: turns that plugin on. Only one can be on."""
    enable_batch_scheduler: bool = False
    """Deprecated spelling of ``batchScheduler: volcano``."""
    head_sidecar_containers: list[dict[str, Any]] = Field(default_factory=list)
    worker_sidecar_containers: list[dict[str, Any]] = Field(default_factory=list)
    """Containers appended last to every head, or worker, pod."""
    default_container_envs: list[dict[str, Any]] = Field(default_factory=list)
    """Environment added to the Ray container of every pod where no entry of that name exists."""
    default_pod_annotations: dict[str, str] = Field(default_factory=dict)
    default_pod_labels: dict[str, str] = Field(default_factory=dict)
    """Added to head and worker pods for keys not present."""
    pod_security_standard: Literal["", "restricted"] = ""
    """``restricted``: every pod that the operator makes gets what the Pod Security Standard of that name asks for and its
    author left out, so that namespaces which enforce it let the pod in. Empty, the default as in KubeRay: pods stay as they are
    written. What runs is not touched. Not KubeRay's."""
    wait_gcs_ready_resources: WaitGcsReadyResources = Field(default_factory=WaitGcsReadyResources)
    """``cpu`` and ``memory`` (both requests and limits) of the init container that holds workers back until the head
    answers; default 200m and 256Mi. Annotations of a RayCluster or of a group's template go before it."""
    use_kubernetes_proxy: bool = False
    """Reach Ray dashboards through the API server's service proxy instead of cluster DNS."""
    enable_metrics: bool = False
    """Whether the ``kuberay_*`` metrics are exported; runtime metrics always are."""
    drain_timeout_seconds: int = Field(default=30, ge=0, le=MAX_DRAIN_SECONDS)
    """How long a worker that is no longer wanted may take to finish its work, drained through Ray, before its pod is
    deleted; 0: deleted at once; at most a week. Not KubeRay's. The annotation ``ray.io/drain-timeout-seconds`` of a
    RayCluster wins."""
    ray_cluster_requeue_seconds: int | None = Field(default=None, ge=0)
    """Seconds until a RayCluster is looked at again although nothing happened; 0: ten minutes. Default 300. The variable
    ``RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV`` wins; unlike it, this reloads."""
    ray_job_status_check_timeout_seconds: int | None = Field(default=None, gt=0)
    """Seconds for which asking Ray about a job may keep failing before the RayJob fails. Default 300. The variable
    ``RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS`` wins; unlike it, this reloads."""
    ray_job_transition_grace_seconds: int | None = Field(default=None, ge=0)
    """Seconds a RayJob may stay ``Running`` after Ray says that its job ended. Default 300. The variable
    ``RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS`` wins; unlike it, this reloads."""
    delete_ray_job_after_job_finishes: bool = Field(default=False, alias="deleteRayJobAfterJobFinishes")
    """With ``shutdownAfterJobFinishes``: delete the RayJob instead of only its cluster."""
    propagate_job_metadata: bool = True
    """Whether labels and annotations of a RayJob reach its submitter Job and the submitter's pods, except keys that
    address a controller (``ray.io/…``, ``kueue.x-k8s.io/…``, ``kubectl.kubernetes.io/…``, …). Not KubeRay's; turn off for
    its behaviour."""
    enable_webhooks: bool = False
    """Whether admission webhooks are served, on every replica; the variable ``ENABLE_WEBHOOKS`` does the same. What has to
    stand beside them: docs/webhooks.md."""
    webhook_port: int = Field(default=9443, ge=1, le=65535)
    """Port of the webhooks, on all addresses. Default as KubeRay's."""
    webhook_certificates: Literal["files", "self"] = "files"
    """Where their certificate comes from: ``files``, as in KubeRay, of ``webhookCertDir``, read again when they change; ``self``:
    the operator makes its own, keeps them in a Secret and renews them. Not KubeRay's."""
    webhook_cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - KubeRay's
    """Folder with ``tls.crt`` and ``tls.key``. Default as KubeRay's."""
    webhook_name: str = Field(default="kuberay-operator-webhook", pattern="^[a-z]([-a-z0-9]{0,51}[a-z0-9])?$")
    """Name of the Service in front of the webhooks and of both webhook configurations; with ``webhookCertificates: self`` the
    Secret is called so with ``-certificates``. Not KubeRay's."""
    webhook_certificate_seconds: int = Field(default=90 * 24 * 3600, ge=60)
    """With ``webhookCertificates: self``: how long a certificate is good for, its authority four times as long. Both are renewed
    when a third of it is left. Default: 90 days. Not KubeRay's."""
    plugins: PluginSettings = Field(default_factory=PluginSettings)
    """Which plugins are on, and a section for each of them; see below."""
    feature_gates: str = ""
    """``Name=true,Name=false``; ``AllAlpha`` and ``AllBeta`` set whole stages. In the file also a mapping
    (``{RayCronJob: true}``) or a list of ``name`` and ``enabled``, as in the Helm chart. The file, the environment variable
    ``KUBERAY_FEATURE_GATES`` and the flag all count; for a gate that more than one names, the flag wins over the variable,
    and the variable over the file. ``kuberay gates`` lists the outcome."""

    @field_validator(
        "reconcile_concurrency",
        "qps",
        "burst",
        "drain_timeout_seconds",
        "ray_cluster_requeue_seconds",
        "ray_job_status_check_timeout_seconds",
        "ray_job_transition_grace_seconds",
        mode="before",
    )
    @classmethod
    def _not_a_boolean(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("Input should be a number")
        return value

    @field_validator("reconcile_concurrency")
    @classmethod
    def _at_least_one(cls, value: int) -> int:
        return value or 1

    @field_validator("profiling_addr")
    @classmethod
    def _only_from_here(cls, value: str) -> str:
        check_loopback(value)
        return value

    @field_validator("log_file_encoder", "log_stdout_encoder", mode="before")
    @classmethod
    def _empty_is_json(cls, value: Any) -> Any:
        return value or "json"

    @model_validator(mode="after")
    def _one_scheduler(self) -> Settings:
        if self.enable_batch_scheduler and self.batch_scheduler:
            raise ValueError("batchScheduler and the deprecated enableBatchScheduler are both set; keep batchScheduler")
        return self

    @field_validator("feature_gates", mode="before")
    @classmethod
    def _gates_as_text(cls, value: Any) -> Any:
        """A mapping, or the list of the Helm chart, as the flag's text."""
        if isinstance(value, list):
            if not all(isinstance(item, dict) and {"name", "enabled"} == set(item) for item in value):
                raise ValueError("each item must have name and enabled")
            value = {item["name"]: item["enabled"] for item in value}
        if isinstance(value, dict):
            wrong = [f"{name} is {on!r}" for name, on in value.items() if not isinstance(on, bool)]
            if wrong:
                raise ValueError(f"{wrong[0]}, and must be true or false")
            return ",".join(f"{name}={str(on).lower()}" for name, on in value.items())
        return value

    @property
    def scheduler(self) -> str:
        """Entry point name of the chosen batch scheduler; empty: none is chosen."""
        return self.batch_scheduler or ("volcano" if self.enable_batch_scheduler else "")

    @property
    def namespaces(self) -> list[str]:
        """Namespaces to watch, trimmed; empty means all (an empty element does not widen the list)."""
        return [name for part in self.watch_namespace.split(",") if (name := part.strip())]

    @property
    def secrets_in(self) -> list[str] | None:
        """Of the namespaces that are served, those whose Secrets the operator may use; None: all."""
        names = [name for part in self.secret_namespaces.split(",") if (name := part.strip())]
        if "*" in names:
            return None
        return [name for name in names if not self.namespaces or name in self.namespaces]

    @property
    def workers(self) -> int:
        return 16 * self.reconcile_concurrency

    def enabled_plugins(self) -> tuple[list[str], set[str]]:
        """Names to load, and which of them may be missing."""
        explicit = self.plugins.enabled
        names = list(DEFAULT_PLUGINS if explicit is None else explicit)
        optional = set(DEFAULT_PLUGINS) if explicit is None else set()
        if self.scheduler and self.scheduler not in names:
            names.append(self.scheduler)
        for gate, plugin in PLUGIN_OF_GATE.items():
            if plugin not in names and core_gate(self.feature_gates, gate):
                names.append(plugin)
                optional.add(plugin)
        return names, optional


FLAGS_KEPT_WITH_FILE = ("feature_gates", "log_file_encoder", "log_stdout_encoder", "log_level")


def load_settings(config_file: str, flags: Mapping[str, Any]) -> Settings:
    """Settings from a file, or from *flags* (field names to values; only those the user gave). Feature gates of all
    sources are put together, those of the flag last.

    Raises `SettingsError` with the file, the key and what is wrong.
    """
    if not config_file:
        settings = _build(dict(flags), "flags")
        return _with_gates(settings, read_environment().KUBERAY_FEATURE_GATES, settings.feature_gates)
    return read_settings(read_file(config_file), config_file, flags)


def read_file(config_file: str) -> bytes:
    """Its content. Raises `SettingsError`."""
    try:
        return Path(config_file).read_bytes()
    except OSError as error:
        raise SettingsError(f"Cannot read the configuration file {config_file}: {error.strerror or error}.") from error


def read_settings(text: bytes, config_file: str, flags: Mapping[str, Any]) -> Settings:
    """The same from the *text* of the file."""
    try:
        content = yaml.safe_load(text.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark is not None else ""
        raise SettingsError(f"The configuration file {config_file} is not YAML{place}.") from error
    if not isinstance(content, dict):
        raise SettingsError(f"The configuration file {config_file} must hold a mapping with apiVersion and kind.")
    if content.get("apiVersion") != API_VERSION or content.get("kind") != KIND:
        raise SettingsError(
            f"The configuration file {config_file} must say apiVersion: {API_VERSION} and kind: {KIND}; it says "
            f"{content.get('apiVersion')!r} and {content.get('kind')!r}."
        )
    values = {k: v for k, v in content.items() if k not in ("apiVersion", "kind") and v is not None}
    values.update({to_camel(k): flags[k] for k in FLAGS_KEPT_WITH_FILE if k in flags and k != "feature_gates"})
    settings = _build(values, f"configuration file {config_file}")
    in_environment, in_flag = read_environment().KUBERAY_FEATURE_GATES, flags.get("feature_gates", "")
    return _with_gates(settings, settings.feature_gates, in_environment, in_flag)


def _with_gates(settings: Settings, *texts: str) -> Settings:
    """Of two values for one gate the later counts."""
    return settings.model_copy(update={"feature_gates": ",".join(text for text in texts if text)})


def _build(values: dict[str, Any], source: str) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        # What stands in an environment may be secret.
        told = where and first["loc"][0] not in ("defaultContainerEnvs", "plugins")
        given = f" (given: {first['input']!r})" if told else ""
        raise SettingsError(f"{source}: {where + ': ' if where else ''}{message}{given}.") from error
