"""What both OTLP kinds share: who may send, how much, over which TLS, what becomes of it; no transport."""
