"""What a RayCronJob spec says, with types.

Source: spec rayjob.md 1.6. What KubeRay does not have is named as in batch/v1 CronJob and means the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field

from kuberay.api.job import RayJobSpec
from kuberay.api.schema import Crd, Model, StringMap


class ConcurrencyPolicy(StrEnum):
    """``spec.concurrencyPolicy``: what a start does when an earlier RayJob has not ended."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class JobTemplateMetadata(Model):
    """``spec.jobTemplateMetadata``: labels and annotations of the RayJobs, over those of the RayCronJob."""

    labels: StringMap = Field(default_factory=dict)
    annotations: StringMap = Field(default_factory=dict)


_AT_LEAST_0 = Crd(format="int32", minimum=0)


class RayCronJobSpec(Model):
    """``spec`` of a RayCronJob (1.6); from ``concurrencyPolicy`` on, fields that KubeRay does not have."""

    schedule: Annotated[str, Crd(required=True)] = ""
    job_template: Annotated[RayJobSpec, Crd(required=True)] = Field(default_factory=RayJobSpec)
    time_zone: Annotated[str | None, Crd(min_length=1)] = None
    suspend: bool | None = None
    concurrency_policy: Annotated[str | None, Crd(enum=tuple(ConcurrencyPolicy))] = None
    successful_jobs_history_limit: Annotated[int | None, _AT_LEAST_0] = None
    failed_jobs_history_limit: Annotated[int | None, _AT_LEAST_0] = None
    starting_deadline_seconds: Annotated[int | None, Crd(format="int64", minimum=0)] = None
    job_template_metadata: JobTemplateMetadata | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """The typed form of a raw spec. Raises pydantic's ValidationError; see `kuberay.api.cluster.parse_problems`."""
        return cls.model_validate(raw)

    @property
    def policy(self) -> ConcurrencyPolicy | None:
        """The concurrency policy; None when the string names none."""
        try:
            return ConcurrencyPolicy(self.concurrency_policy or ConcurrencyPolicy.ALLOW)
        except ValueError:
            return None

    @property
    def template_labels(self) -> Mapping[str, str]:
        return self.job_template_metadata.labels if self.job_template_metadata else {}

    @property
    def template_annotations(self) -> Mapping[str, str]:
        return self.job_template_metadata.annotations if self.job_template_metadata else {}
