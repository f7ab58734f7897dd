"""The development cluster: a real Kubernetes from one binary, in a network namespace of its own.

Decides nothing itself; each module beside this one says what it decides."""
