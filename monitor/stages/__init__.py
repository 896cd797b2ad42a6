"""The verbs of the pipeline: each module turns values into values and has one tick or worker around that."""
