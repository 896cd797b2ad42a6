"""One process: settings become parts, an intake, a clock, metrics; what a tick does is in `stages`."""
