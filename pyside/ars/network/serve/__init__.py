"""Serving proposals from a trained network, in batches, with the states of the traces under way."""
