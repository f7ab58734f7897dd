"""An operator for Ray on Kubernetes that serves ray.io/v1."""
