"""Attributes become text, messages and documents, whatever the convention; dialects are written with it."""
