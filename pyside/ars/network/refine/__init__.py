"""Refinement: rounds of weighted maximum likelihood that specialise a network to one observation.

``pool`` holds the traces of all rounds and their weights, ``learner`` trains on them, ``rounds`` is the loop, ``kept``
its folder, and ``start`` makes a network that proposes nearly the prior.
"""
