"""The environment variables that the operator reads, with KubeRay's names and its way of reading them (operator.md 9).

They always count, with and without a configuration file, and hold as long as the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic_settings import BaseSettings, SettingsConfigDict

from kuberay.plan.config import PlanConfig

if TYPE_CHECKING:
    from kuberay.operator.settings import Settings

_SECONDS = 300
"""KubeRay's default of the periodic look at a RayCluster and of a RayJob's two timeouts."""


class Environment(BaseSettings):
    """All of them. Booleans are the words ``true`` and ``false`` in any case; anything else leaves the default."""

    model_config = SettingsConfigDict(extra="ignore", case_sensitive=True)

    CLUSTER_DOMAIN: str = ""
    """DNS domain of the Kubernetes cluster. Default: ``cluster.local``."""
    ENABLE_INIT_CONTAINER_INJECTION: str = ""
    """``false``: worker pods get no init container that waits for the head."""
    ENABLE_PROBES_INJECTION: str = ""
    """``false``: Ray containers get no liveness and readiness probes."""
    RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV: str = ""
    """Seconds until a RayCluster is looked at again although nothing happened. Default: 300."""
    ENABLE_RANDOM_POD_DELETE: str = ""
    """``true``: with autoscaling, surplus workers are deleted by the operator too, not only when the autoscaler names
    them."""
    ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE: str = ""
    """``true``: the head service has a cluster IP; otherwise it is headless."""
    ENABLE_ZERO_DOWNTIME: str = ""
    """``false``: a RayService that names no upgrade strategy keeps its RayCluster when ``rayClusterConfig`` is edited;
    otherwise it gets a new one (``NewCluster``)."""
    DELETE_RAYJOB_CR_AFTER_JOB_FINISHES: str = ""
    """``true``: the same as the key ``deleteRayJobAfterJobFinishes``."""
    RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS: str = ""
    """Seconds a RayJob may stay ``Running`` after Ray says that its job ended. Default: 300."""
    RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS: str = ""
    """Seconds for which asking Ray about a job may keep failing before the RayJob fails. Default: 300."""
    ENABLE_LOGIN_SHELL: str = ""
    """``true``: the operator's commands run in a login shell."""
    ENABLE_DETERMINISTIC_HEAD_POD_NAME: str = ""
    """``true``: the head pod is named ``<cluster>-head``, without a suffix."""
    ENABLE_GCS_FT_REDIS_CLEANUP: str = ""
    """``false``: clusters with GCS fault tolerance get no finalizer, and their keys stay in Redis when they are
    deleted."""
    USE_INGRESS_ON_OPENSHIFT: str = ""
    """``true``: on OpenShift, too, heads are exposed by an Ingress and not by a Route."""
    ENABLE_WEBHOOKS: str = ""
    """Exactly ``true``: the same as the key ``enableWebhooks``."""
    KUBERAY_FEATURE_GATES: str = ""
    """Not KubeRay's: feature gates as in ``--feature-gates``, which wins over it; it wins over the configuration file."""
    POD_NAMESPACE: str = ""
    """Not KubeRay's: the operator's own namespace where no service account file tells it."""

    def webhooks(self, settings: Settings) -> bool:
        """Whether either source turns the webhooks on."""
        return self.ENABLE_WEBHOOKS == "true" or settings.enable_webhooks

    def plan_config(self, settings: Settings, operator_version: str) -> PlanConfig:
        """What plans need of both sources."""
        requeue = _seconds(self.RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV, settings.ray_cluster_requeue_seconds)
        timeout = _seconds(self.RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS, settings.ray_job_status_check_timeout_seconds)
        grace = _seconds(
            self.RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS, settings.ray_job_transition_grace_seconds
        )
        return PlanConfig(
            operator_version=operator_version,
            cluster_domain=self.CLUSTER_DOMAIN or "cluster.local",
            operator_namespace=self.POD_NAMESPACE,
            init_container_injection=not _is(self.ENABLE_INIT_CONTAINER_INJECTION, "false"),
            probes_injection=not _is(self.ENABLE_PROBES_INJECTION, "false"),
            head_cluster_ip_service=_is(self.ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE, "true"),
            login_shell=_is(self.ENABLE_LOGIN_SHELL, "true"),
            deterministic_head_pod_name=_is(self.ENABLE_DETERMINISTIC_HEAD_POD_NAME, "true"),
            random_pod_delete=_is(self.ENABLE_RANDOM_POD_DELETE, "true"),
            drain_timeout=timedelta(seconds=settings.drain_timeout_seconds),
            redis_cleanup=not _is(self.ENABLE_GCS_FT_REDIS_CLEANUP, "false"),
            requeue_period=timedelta(seconds=max(0, requeue)),
            enable_zero_downtime=not _is(self.ENABLE_ZERO_DOWNTIME, "false"),
            delete_rayjob_after_finish=_is(self.DELETE_RAYJOB_CR_AFTER_JOB_FINISHES, "true")
            or settings.delete_ray_job_after_job_finishes,
            propagate_job_metadata=settings.propagate_job_metadata,
            job_transition_grace=timedelta(seconds=grace),
            job_status_check_timeout=timedelta(seconds=timeout if timeout > 0 else 300),
            head_sidecars=settings.head_sidecar_containers,
            worker_sidecars=settings.worker_sidecar_containers,
            default_envs=settings.default_container_envs,
            default_pod_annotations=settings.default_pod_annotations,
            default_pod_labels=settings.default_pod_labels,
            secret_namespaces=None if settings.secrets_in is None else frozenset(settings.secrets_in),
            restricted_pods=settings.pod_security_standard == "restricted",
            use_kubernetes_proxy=settings.use_kubernetes_proxy,
            ingress_on_openshift=_is(self.USE_INGRESS_ON_OPENSHIFT, "true"),
            wait_gcs_ready_cpu=settings.wait_gcs_ready_resources.cpu,
            wait_gcs_ready_memory=settings.wait_gcs_ready_resources.memory,
        )


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """The process environment, or the given one."""
    if variables is None:
        return Environment()
    known: dict[str, Any] = {k: v for k, v in variables.items() if k in Environment.model_fields}
    return Environment(**known)


def _is(value: str, word: str) -> bool:
    return value.lower() == word


def _seconds(variable: str, of_file: int | None) -> int:
    """A *variable* that is set wins, even one that says nothing that makes sense: KubeRay then takes its default."""
    try:
        return int(variable) if variable or of_file is None else of_file
    except ValueError:
        return _SECONDS


def own_namespace(connection_namespace: str, environment: Environment) -> str:
    """Namespace the operator itself lives in; empty when it cannot be told."""
    return environment.POD_NAMESPACE or connection_namespace
