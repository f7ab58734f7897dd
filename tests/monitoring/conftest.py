"""Level "monitoring": rules and dashboards, as promtool and Prometheus' own language see them, and a scrape of a real process.

``make test-monitoring`` runs it; Prometheus is fetched on first use and kept (``dev/cluster prometheus`` prints where).
"""
