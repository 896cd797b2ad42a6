"""Lenient readers for what telemetry carries inside attributes; shared by dialects and assembly."""
