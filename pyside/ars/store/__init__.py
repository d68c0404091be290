"""Traces and results on disk: whole files or none, and what each file belongs to."""
