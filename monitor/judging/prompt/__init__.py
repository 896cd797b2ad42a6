"""A prompt file becomes the messages of a question; the files are in `prompts/`."""
