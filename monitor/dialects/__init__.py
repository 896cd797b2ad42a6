"""One telemetry convention per file: recognise its spans and read turns from them."""
