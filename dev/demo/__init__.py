"""The demo: a RayCluster and a RayJob on a real Kubernetes, served by this operator running in a pod."""
