"""Recorded scenarios: a scripted world, what became of it, and how another operator's run of it compares.

`script` reads a scenario, `replay` plays it in a `world`, `compare` says what differs. `sim` brings a simulated cluster,
`kube` a real API server; the world and the played Ray dashboards are the same in both.
"""
