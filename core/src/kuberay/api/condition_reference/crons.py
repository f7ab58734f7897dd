"""Conditions of RayCronJobs; all are this operator's own."""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.condition_reference.entry import ANY, Entry, cronjob
from kuberay.api.conditions import FALSE, TRUE, CronCondition

CRONS: Sequence[Entry] = (
    cronjob(CronCondition.ACCEPTED, TRUE, "Valid", "normal", "Schedule, zone and template are fine."),
    cronjob(
        CronCondition.ACCEPTED,
        FALSE,
        "Invalid",
        "terminal",
        "The object is refused: no RayJob is started. RayJobs that exist go on.",
        "Correct the fields that the message names.",
    ),
    cronjob(
        CronCondition.SUSPENDED,
        TRUE,
        "Suspended",
        "normal",
        "spec.suspend is true: no RayJob is started until it is not.",
    ),
    cronjob(
        CronCondition.START_DELAYED,
        TRUE,
        "JobAlreadyActive",
        "transient",
        "A start waits for the RayJobs of earlier ones, since concurrencyPolicy is Forbid.",
        "To start at once, delete the RayJob that still runs, or set concurrencyPolicy to Replace or Allow.",
    ),
    cronjob(
        CronCondition.START_DELAYED,
        TRUE,
        "NameTaken",
        "terminal",
        "A RayJob of the name the start wants belongs to somebody else and is left alone. The next start has another name.",
        "Delete or rename the RayJob that the message names.",
    ),
    cronjob(
        CronCondition.START_DELAYED,
        TRUE,
        ANY,
        "transient",
        "The API server refuses the RayJob (quota, admission, permissions); the reason is the API server's. It is tried "
        "again.",
        "Read the message; the start is given up for the next one when that comes first.",
    ),
)
