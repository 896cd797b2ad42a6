"""Files of telemetry, read whole or as they grow; watching a folder is for the collector `file`."""
