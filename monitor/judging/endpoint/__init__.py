"""The judge model as a service: its client, limits, prices, outages."""
