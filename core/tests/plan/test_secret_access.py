"""What is refused where the operator may not use Secrets."""

from __future__ import annotations

import pytest
from kuberay.api.cluster import AuthOptions
from kuberay.plan.config import PlanConfig
from kuberay.plan.secret_access import may_use_secrets, token_problems

TOKEN = AuthOptions(mode="token")


@pytest.mark.parametrize(
    ("namespaces", "options", "refused"),
    [
        (None, TOKEN, False),
        (frozenset({"lab"}), TOKEN, False),
        (frozenset({"other"}), TOKEN, True),
        (frozenset(), TOKEN, True),
        (frozenset(), AuthOptions(mode="token", secret_name="mine"), True),
        (frozenset(), AuthOptions(mode="token", enable_k8s_token_auth=True), False),
        (frozenset(), AuthOptions(mode="disabled"), False),
        (frozenset(), AuthOptions(), False),
        (frozenset(), None, False),
    ],
)
def test_tokens_need_secrets(namespaces: frozenset[str] | None, options: AuthOptions | None, refused: bool) -> None:
    config = PlanConfig(secret_namespaces=namespaces)
    problems = token_problems(config, "lab", options, "spec.authOptions")
    assert bool(problems) is refused
    for problem in problems:
        assert str(problem).startswith("spec.authOptions: ")
        assert "lab" in problem.message
        assert "secretNamespaces" in problem.message
    assert may_use_secrets(config, "lab") is (namespaces is None or "lab" in namespaces)
