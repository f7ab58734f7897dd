"""``kuberay diff``: what an edit of a Ray object would do, and which fields cause it, before it is applied."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

if TYPE_CHECKING:
    from kuberay.cli.diff_cronjob import CronEffects
    from kuberay.cli.diff_job import JobEffects
    from kuberay.cli.diff_job_world import Rules
    from kuberay.cli.diff_reading import Live
    from kuberay.cli.diff_service import ServiceEffects
    from kuberay.plan.edit.model import EditEffects

Manifest = dict[str, Any]


def diff(
    file: Annotated[str, typer.Option("--file", "-f", help="Manifest as it shall be; - for stdin.")],
    against: Annotated[
        str, typer.Option(help="Manifest as it is, instead of asking the API server; needs no cluster.")
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where the manifest names none. [default: the kubeconfig's]")
    ] = "",
    kubeconfig: Annotated[str, typer.Option(help="Kubeconfig file. [default: $KUBECONFIG, else ~/.kube/config]")] = "",
    config: Annotated[str, typer.Option(help="Configuration file of the operator.")] = "",
    feature_gates: Annotated[str, typer.Option(help="As for 'kuberay run'.")] = "",
) -> None:
    """Tell what applying FILE would do: what it restarts of a RayCluster, what changes for a RayJob now and with its next
    attempt, whether a RayService needs another RayCluster, when a RayCronJob starts next.

    Exit code 0: it can be applied, whatever it restarts (unlike 'kubectl diff', where 1 means a difference).
    1: it would be refused, or cannot be looked at. 2: the command line is wrong.
    """
    from kuberay.cli.diff_job_world import Rules
    from kuberay.cli.diff_reading import Live, look_up
    from kuberay.cli.manifests import UnreadableError, documents, place_of
    from kuberay.kube.connection import NoConnectionError
    from kuberay.kube.errors import ApiError
    from kuberay.kube.transport import TransportError
    from kuberay.operator.environment import read_environment
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.start import assemble_plugins, operator_version
    from kuberay.plugins.gates import GateError
    from kuberay.plugins.loader import PluginError

    if output not in ("table", "json"):
        typer.echo(f"kuberay: --output must be table or json, not {output!r}.", err=True)
        raise typer.Exit(2)
    try:
        settings = load_settings(config, {"feature_gates": feature_gates} if feature_gates else {})
        hooks, gates = assemble_plugins(settings)
        plan_config = read_environment().plan_config(settings, operator_version())
        wanted = documents(file, told=True)
        if against:
            place = namespace or "default"
            live = {(old["kind"], *place_of(old, place)): Live(old) for old in documents(against)}
        else:
            watched = [watch.kind for watch in hooks.watches()]
            place, live = asyncio.run(look_up(wanted, namespace, kubeconfig, watched))
    except (SettingsError, PluginError, GateError, NoConnectionError, UnreadableError) as error:
        raise _refuse(str(error)) from error
    except ApiError as error:
        raise _refuse(f"The API server refuses to tell what is there: {error}") from error
    except (TransportError, OSError, TimeoutError) as error:
        raise _refuse(f"Cannot reach the API server: {error}") from error
    rules = Rules(config=plan_config, gates=gates, hooks=hooks, now=datetime.now(UTC).replace(microsecond=0))
    judge = _Judge(rules, merges=not against)
    bodies, pages, refused = [], [], False
    for document in wanted:
        key = place_of(document, place)
        document["metadata"]["namespace"] = key[0]
        body, page, no = judge.answer(live.get((document["kind"], *key)), document, *key)
        bodies.append(body)
        pages.append(page)
        refused |= no
    if output == "json":
        typer.echo(orjson.dumps(bodies, option=orjson.OPT_INDENT_2, default=str).decode())
    else:
        typer.echo("\n\n".join(pages))
    if refused:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Judge:
    """What edits are judged by."""

    rules: Rules
    merges: bool
    """Whether the file is applied to what is there, rather than taking its place."""

    def answer(self, live: Live | None, wanted: Manifest, namespace: str, name: str) -> tuple[Manifest, str, bool]:
        """What is told about one object: for programs, for people, and whether the edit would be refused."""
        from kuberay.cli.diff_cronjob_report import cron_as_dict, cron_page
        from kuberay.cli.diff_job_report import job_as_dict, job_page
        from kuberay.cli.diff_report import as_dict, page
        from kuberay.cli.diff_service_report import service_as_dict, service_page

        match wanted["kind"]:
            case "RayJob":
                job = self._job(live, wanted)
                return job_as_dict(namespace, name, job), job_page(namespace, name, job), bool(job.problems)
            case "RayService":
                told = self._service(live, wanted)
                return service_as_dict(namespace, name, told), service_page(namespace, name, told), bool(told.problems)
            case "RayCronJob":
                cron = self._cronjob(live, wanted)
                return cron_as_dict(namespace, name, cron), cron_page(namespace, name, cron), bool(cron.problems)
        cluster = self._cluster(live, wanted)
        return as_dict(namespace, name, cluster), page(namespace, name, cluster), bool(cluster.problems)

    def _cluster(self, live: Live | None, wanted: Manifest) -> EditEffects:
        from kuberay.plan.edit import creation_effects, edit_effects
        from kuberay.plan.edit.outdated import older_pods
        from kuberay.plan.edit.problems import edit_problems

        before, after, schema = self._stored(live, wanted)
        problems = edit_problems(before, wanted, after, schema, self.rules.gates)
        if live is None or before is None:
            return creation_effects(after, problems)
        # Pods tell of the object as it is stored, which need not have all the defaults filled in (slim CRDs).
        older = older_pods(live.manifest, live.pods) if live.pods else None
        random = self.rules.config.random_pod_delete
        return edit_effects(before, after, problems=problems, older=older, random_pod_delete=random)

    def _job(self, live: Live | None, wanted: Manifest) -> JobEffects:
        from kuberay.cli.diff_job import job_effects
        from kuberay.cli.diff_job_world import Situation
        from kuberay.plan.edit.problems import edit_problems

        before, after, schema = self._stored(live, wanted)
        problems = edit_problems(before, wanted, after, schema, self.rules.gates)
        situation = Situation(before, live.others) if live is not None and before is not None else None
        return job_effects(situation, after, self.rules, problems, from_file=not self.merges)

    def _service(self, live: Live | None, wanted: Manifest) -> ServiceEffects:
        from kuberay.cli.diff_service import service_effects
        from kuberay.cli.service_world import ServiceSituation, running
        from kuberay.plan.edit.problems import edit_problems

        before, after, schema = self._stored(live, wanted)
        rules, situation = self.rules, None
        if live is not None and before is not None:
            situation = ServiceSituation(before, live.others) if self.merges else running(before, rules)
            # What Serve would refuse is no reason to refuse an edit of a RayService that serves.
            after = {**after, "status": situation.service.get("status") or {}}
        problems = edit_problems(before, wanted, after, schema, rules.gates, rules.hooks, rules.config)
        return service_effects(situation, after, rules, problems, from_file=not self.merges)

    def _cronjob(self, live: Live | None, wanted: Manifest) -> CronEffects:
        from kuberay.cli.diff_cronjob import cron_effects
        from kuberay.plan.edit.problems import edit_problems

        before, after, schema = self._stored(live, wanted)
        problems = edit_problems(before, wanted, after, schema, self.rules.gates)
        return cron_effects(before, live.others if live is not None else [], after, self.rules, problems)

    def _stored(self, live: Live | None, wanted: Manifest) -> tuple[Manifest | None, Manifest, Manifest]:
        """The object as it is stored now, as it would be, and the schema of its spec."""
        from kuberay.api.structural import defaulted
        from kuberay.cli.applied import applied, without_bookkeeping
        from kuberay.cli.manifests import spec_schema

        schema = spec_schema(wanted["kind"])
        after = {**wanted, "spec": defaulted(wanted.get("spec") or {}, schema)}
        if live is None:
            return None, after, schema
        metadata = live.manifest.get("metadata") or {}
        told = {**metadata, "annotations": without_bookkeeping(metadata.get("annotations") or {})}
        if not self.merges:
            told["namespace"] = wanted["metadata"]["namespace"]
        before = {**live.manifest, "metadata": told, "spec": defaulted(live.manifest.get("spec") or {}, schema)}
        if self.merges:
            after = applied({**before, "metadata": metadata}, after)
        return before, after, schema


def _refuse(sentence: str) -> typer.Exit:
    typer.echo(f"kuberay: {sentence}", err=True)
    return typer.Exit(1)
