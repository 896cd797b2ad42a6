"""The verbs of the pipeline, a file each, one tick or worker around values; stages never call each other."""
