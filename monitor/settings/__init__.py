"""The tree of settings, and how it is read from file and environment."""
