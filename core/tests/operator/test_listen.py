"""Listen addresses, and which of them only the pod itself can reach."""

from __future__ import annotations

import pytest
from kuberay.operator.listen import check_loopback
from kuberay.operator.settings import SettingsError, load_settings


@pytest.mark.parametrize("address", ["0", "", "127.0.0.1:6060", "127.1.2.3:1", "[::1]:6060", "localhost:6060"])
def test_addresses_of_the_loopback_interface(address: str) -> None:
    check_loopback(address)
    assert load_settings("", {"profiling_addr": address}).profiling_addr == address


@pytest.mark.parametrize("address", [":6060", "0.0.0.0:6060", "[::]:6060", "10.0.0.1:6060", "pod.local:6060"])
def test_others_are_refused_with_a_sentence(address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings("", {"profiling_addr": address})
    assert str(caught.value) == (
        f"flags: profiling_addr: {address!r} could be reached from outside the pod; write 127.0.0.1:6060 and use kubectl "
        f"port-forward (given: {address!r})."
    )
