"""Generators that somebody else wrote, run backwards: ``python -m ars_lab.generators``, behind ``make generators``.

A generator is described by a ``Generator`` (spec.py): how to fetch and build it, which quantities are inferred from
which data, how to draw its detector. ``study`` does the rest the same way for all of them: it trains a network, infers
by ARS, with the prior inside loops and by Markov chains, and checks that the three agree.
"""
