"""The paper's experiments, each from nothing to figures, a table and a page: ``ars reproduce``.

settings.py       how much of each experiment: tiny, quick, full
workspace.py      stages that are written whole and not done twice
records.py        a run as arrays on disk, and back
thinning.py       one run with M = 10 serves M = 1 and 2 as well
methods.py        the weightings that are compared
convergence.py    repeated runs: evidence, effective samples, K_converge, bias
exact.py          what is known exactly
paper.py          what the paper reports
beta.py, marsaglia.py, mini_sherpa.py, schemes.py   the experiments
figures.py, events.py, tables.py, page.py           what they leave behind
"""

from __future__ import annotations

from ars_lab.reproduce.settings import SIZES, Settings, settings_for
from ars_lab.reproduce.workspace import Workspace

__all__ = ["SIZES", "Settings", "Workspace", "settings_for"]
