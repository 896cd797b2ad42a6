"""File descriptors that the receivers leave to others."""

RESERVED_DESCRIPTORS = 320
"""To the health pages, the store, and a judge's 256 calls under way."""
