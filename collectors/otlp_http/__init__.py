"""The kind `otlp_http`: OTLP over HTTP, protobuf and JSON; what becomes of a request is in `_otlp_receiver`."""
