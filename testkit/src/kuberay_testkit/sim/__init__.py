"""A simulated Kubernetes API server with its controllers, on a virtual clock, behind `kuberay.kube.transport.Transport`."""
