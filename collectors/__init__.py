"""Sources of telemetry, a folder per kind with `Config` and `build` in its `collector.py`; no stage is here."""
