"""Which objects are refused, why, and where: one module per kind, one function per group of rules.

Rules run in KubeRay's order, so the first problem is the one KubeRay reports; the rest are told too.
"""
