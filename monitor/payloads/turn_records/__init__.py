"""Records that are turns already, as JSON."""
