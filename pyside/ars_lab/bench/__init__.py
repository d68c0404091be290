"""Benchmarks: ``ars bench``. Every figure is taken next to what it is compared with, in the same run.

``results`` is what a benchmark returns and its file; ``measure`` times the processes of a simulator; ``fork``,
``rewind`` (with ``by_hand``), ``draws``, ``infer``, ``sites``, ``train`` and ``peer`` (pyprob) are the suites;
``compare`` sets two files against each other.
"""
