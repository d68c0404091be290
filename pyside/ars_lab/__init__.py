"""The paper's experiments (``ars reproduce``) and the benchmarks (``ars bench``). Needs the extra ``lab``."""
