"""What limits the effective sample size of an amortized network: one thing changed at a time, all else equal.

    python -m ars_lab.ablation sir                        # some minutes of one core; also mini_sherpa, sequence
    python -m ars_lab.ablation sir --quick                # small numbers, to see that it works
    python -m ars_lab.ablation sir --only base,flat --seeds 1,2 --recording traces/ --json table.json

Every variant is trained on the same traces. The measure is the held-out loss, the mean over traces of -log q. All are
judged on the same traces, so its noise is far below the differences: these are differences of the Kullback-Leibler
divergence between posterior and proposal, in nats, averaged over data. With several seeds the table has the standard
error of a difference. ESS/N is the median over data from the prior predictive, with the weights of ARS. Times are CPU
seconds of this process, relative to those of the first variant.

Some variants are no options of libars: spline flows (``splines``) and mixtures over consecutive draws (``blocks``).
They can be trained and judged, not served.
"""

from ars_lab.ablation.command import main, table
from ars_lab.ablation.measure import Outcome, run
from ars_lab.ablation.subjects import SUBJECTS, Subject, Variant

__all__ = ["SUBJECTS", "Outcome", "Subject", "Variant", "main", "run", "table"]
