"""How far runs and trainings scale: costs measured on this machine, and a simulation of many nodes from them.

    python -m ars_lab.scaling                    # a few minutes; writes scaling.json and scaling.png
    python -m ars_lab.scaling --quick            # seconds, to see that it works
    python -m ars_lab.scaling --costs scaling.json   # simulates again with costs that were measured before

docs/scaling.md has the results and what they mean.
"""
