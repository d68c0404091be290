"""Draws from a network's proposals, which are not a posterior and cannot be mistaken for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.columns import Floats
from ars.posterior import Posterior, Traces
from ars.results import export

if TYPE_CHECKING:
    import pandas as pd
    import xarray

__all__ = ["ProposalDraws"]

_LABEL: Final = "draws from the network's proposals, not corrected by weights: biased"
_MOST_ROWS: Final = 50  # values that a summary lists


class ProposalDraws(Traces):
    """Draws from a network's proposals, from ``Network.posterior_without_weights``: not corrected by weights, biased.

    They show the network's proposals for the latents of given data. Only weights can show how far these are from the
    posterior: use ``simulator.posterior(observe, traces, network=network)``. Inside rejection loops, the draws are
    those that the loop accepted.

    ``draws["x"]`` has the values of a result or latent, one row per draw, as in ``Traces``. There are no weights, no
    evidence and no errors here.
    """

    label: Final = _LABEL

    @classmethod
    def of(cls, post: Posterior) -> ProposalDraws:
        """Make them from the traces of a run whose latents a network proposed, without its weights.

        Parameters
        ----------
        post : Posterior
            The run.

        Returns
        -------
        ProposalDraws
        """
        counters = {name: value for name, value in post._counters.items() if not name.startswith("correction")}
        return cls(post.columns, post.sites, run=post.run, stats=counters, observed=post.observed)

    @property
    def observations(self) -> Mapping[str, Floats]:
        """The data, once per draw."""
        return {name: np.broadcast_to(given, (len(self), *given.shape)) for name, given in self.observed.items()}

    def _heading(self) -> str:
        return f"ProposalDraws of {' '.join(self.run.simulator)}: {len(self):,} {self.label}"

    def summary(self) -> str:
        """Format a table with the unweighted mean, standard deviation and quantiles of every value.

        Returns
        -------
        str
            At most 50 rows.
        """
        columns = export.value_columns(self.columns, self.sites, ())
        title = f"{'unweighted':24} {'mean':>12} {'sd':>12} {'5%':>12} {'50%':>12} {'95%':>12}"
        lines = [self._heading(), title]
        for name, values in list(columns.items())[:_MOST_ROWS]:
            there = values[~np.isnan(values)]
            if len(there):
                shown = [there.mean(), there.std(), *np.quantile(there, [0.05, 0.5, 0.95])]
                lines.append(f"{name:24} " + " ".join(f"{number:12.6g}" for number in shown))
        if len(columns) > _MOST_ROWS:
            lines.append(f"and {len(columns) - _MOST_ROWS:,} more values")
        lines.append("for the posterior: simulator.posterior(observe, traces, network=network)")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{self._heading()}>"

    def to_dataframe(self) -> pd.DataFrame:
        """Convert the draws to a table with a row per draw, numbered in the column ``proposal_draw``.

        Returns
        -------
        pandas.DataFrame
            ``attrs["label"]`` says that these are not draws from the posterior.

        Raises
        ------
        ImportError
            pandas is missing.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas, or libars[arviz]") from error
        numbers = {"proposal_draw": self.columns.traces["trace"].copy()}
        frame = pd.DataFrame({**numbers, **export.value_columns(self.columns, self.sites, numbers)})
        frame.attrs["label"] = self.label
        return frame

    def to_datatree(self) -> xarray.DataTree:
        """Convert the draws to a tree for xarray, in the group ``proposal_draws``. There is no group ``posterior``.

        Returns
        -------
        xarray.DataTree
            The tree and its group have the attribute ``label``, which says what they are.

        Raises
        ------
        ImportError
            xarray is missing.
        """
        return export.draws_tree(self, "proposal_draws", {"label": self.label})
