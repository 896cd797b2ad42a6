"""Telemetry conventions, a file each: spans become steps; steps become turns in `assembly`."""
