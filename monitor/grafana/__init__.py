"""Grafana's API, dashboards and annotations; the files of the dashboards are in `dashboards/`."""
