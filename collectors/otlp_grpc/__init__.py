"""The kind `otlp_grpc`: OTLP over gRPC; what becomes of a request is in `_otlp_receiver`."""
