"""The kind `kafka`: topics of OTLP requests or turn records; what their bytes mean is in `monitor.payloads`."""
