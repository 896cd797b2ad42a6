"""Bytes of OTLP or turn records become fragments, then spans and turns; transports are in `collectors`."""
