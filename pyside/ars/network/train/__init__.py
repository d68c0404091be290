"""Training a proposal network: where traces come from, batches, steps and their history."""
