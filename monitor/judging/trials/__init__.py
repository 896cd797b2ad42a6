"""Trying a judge out: canaries, labelled turns, predicted cost."""
