"""Which resources the operator deals with: group, version, plural and kind, and the paths the API server serves them at.

Everything that names a Kubernetes resource elsewhere refers to one of these values, so a typo is an import error.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One served resource, for example ``Kind("ray.io", "v1", "rayclusters", "RayCluster")``."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``group/version``, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection (no name), an object, or one of its subresources."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


RAYCLUSTER = Kind("ray.io", "v1", "rayclusters", "RayCluster")
RAYJOB = Kind("ray.io", "v1", "rayjobs", "RayJob")
RAYSERVICE = Kind("ray.io", "v1", "rayservices", "RayService")
RAYCRONJOB = Kind("ray.io", "v1", "raycronjobs", "RayCronJob")

POD = Kind("", "v1", "pods", "Pod")
SERVICE = Kind("", "v1", "services", "Service")
SECRET = Kind("", "v1", "secrets", "Secret")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
JOB = Kind("batch", "v1", "jobs", "Job")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
INGRESS = Kind("networking.k8s.io", "v1", "ingresses", "Ingress")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ROUTE = Kind("route.openshift.io", "v1", "routes", "Route")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
GATEWAY = Kind("gateway.networking.k8s.io", "v1", "gateways", "Gateway")
HTTP_ROUTE = Kind("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute")
EVENT = Kind("events.k8s.io", "v1", "events", "Event")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
CRD = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
