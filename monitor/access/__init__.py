"""Who may come in through a listener: its addresses, TLS, credentials, and what is told of those who may not."""
