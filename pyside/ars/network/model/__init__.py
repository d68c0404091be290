"""The proposal network itself: embeddings, recurrence, heads and densities."""
