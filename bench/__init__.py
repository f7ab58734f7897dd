"""Load and efficiency benchmarks against the 0-node development cluster; run with ``make bench``."""
