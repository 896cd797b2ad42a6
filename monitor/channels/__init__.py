"""One alert channel per file; the file's name is the `kind` in the settings."""
