"""Does a simulator keep the promises that its weights rest on? Behind ``Simulator.check`` and ``ars check``."""
