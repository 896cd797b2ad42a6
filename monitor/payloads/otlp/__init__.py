"""OTLP requests, protobuf and JSON."""
