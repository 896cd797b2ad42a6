"""One source per file; the file's name is the `kind` in the settings. A leading underscore marks shared code."""
