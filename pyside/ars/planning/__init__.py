"""Which loops are estimated, with how many continuations, and for which traces.

Pure functions of accepted traces and of pilot continuations. No clock, no tries of the main run, and no estimate takes
part: a plan that depended on these would bias the weights.
"""
