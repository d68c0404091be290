"""Markov chains over the latents of a simulator: the second opinion beside weighted traces. docs/mcmc.md derives it."""
