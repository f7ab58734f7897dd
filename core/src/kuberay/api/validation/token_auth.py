"""Whether the authentication settings are refused: token mode needs a Ray that knows it.

Source: spec raycluster.md 1.8 rules 29-30. Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuberay.api.cluster import AuthOptions, RayClusterSpec
from kuberay.api.versions import Version, parse_version

Found = tuple[str, str]

TOKEN_SINCE = Version(2, 52)
K8S_TOKEN_SINCE = Version(2, 55)
_K8S = "authOptions.enableK8sTokenAuth"


def auth_problems(spec: RayClusterSpec) -> Iterator[Found]:
    """Rules 29-30."""
    options = spec.auth_options
    if options is None:
        return
    if options.token:
        yield from _token_problems(spec.ray_version, options)
    elif options.enable_k8s_token_auth:
        yield _K8S, f"{_K8S} is enabled but authOptions.mode not set to 'token'"


def _token_problems(text: str, options: AuthOptions) -> Iterator[Found]:
    subject = "authOptions.mode is 'token' but"
    if not text:
        yield "rayVersion", f"{subject} RayVersion was not specified. Ray version {TOKEN_SINCE} or later is required"
        return
    try:
        version = parse_version(text)
    except ValueError as error:
        yield "rayVersion", f"{subject} RayVersion format is invalid: {text}, {error}"
        return
    if version < TOKEN_SINCE:
        yield "rayVersion", f"{subject} minimum Ray version is {TOKEN_SINCE}, got {text}"
    if options.enable_k8s_token_auth:
        if version < K8S_TOKEN_SINCE:
            yield "rayVersion", f"{_K8S} is enabled but minimum Ray version is {K8S_TOKEN_SINCE}, got {text}"
        if options.secret_name:
            yield "authOptions.secretName", f"{_K8S} is enabled and authOptions.secretName is also set"
