"""The verbs of the command line and what they print; no work of the pipeline is done here."""
