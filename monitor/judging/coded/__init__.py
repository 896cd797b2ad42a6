"""Metrics computed in code, without a judge."""
