"""The other side of ``ars bench pyprob``: runs in pyprob's own environment, and knows nothing of this package.

It reads one JSON object per line, {"do": "prior", "n": 100}, does it, and answers {"seconds": ...}. pyprob prints what
it does; that goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any


def make_model(pyprob: Any, torch: Any) -> Any:
    """Marsaglia's polar method and two data, as csim/marsaglia.c has them."""

    class Marsaglia(pyprob.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("Marsaglia")

        def forward(self) -> Any:
            uniform = pyprob.distributions.Uniform(-1, 1)
            while True:
                x1, x2 = pyprob.sample(uniform), pyprob.sample(uniform)
                s = x1 * x1 + x2 * x2
                if 0 < float(s) < 1:
                    break
            mu = x1 * torch.sqrt(-2 * torch.log(s) / s)
            data = pyprob.distributions.Normal(mu, 0.1)
            pyprob.observe(data, name="y1")
            pyprob.observe(data, name="y2")
            return mu

    return Marsaglia()


def do(pyprob: Any, model: Any, request: dict[str, Any]) -> float:
    """Seconds that it took."""
    n = int(request["n"])
    started = time.perf_counter()
    if request["do"] == "prior":
        model.prior(num_traces=n)
    elif request["do"] == "train":
        model.learn_inference_network(
            num_traces=n,
            inference_network=pyprob.InferenceNetwork.LSTM,
            observe_embeddings={"y1": {"dim": 32}, "y2": {"dim": 32}},
            batch_size=int(request["batch"]),
            lstm_dim=int(request["width"]),
            lstm_depth=1,
        )
    else:
        model.posterior(
            num_traces=n,
            inference_engine=pyprob.InferenceEngine.IMPORTANCE_SAMPLING_WITH_INFERENCE_NETWORK,
            observe={"y1": 0.0, "y2": 0.0},
        )
    return time.perf_counter() - started


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    pyprob: Any = importlib.import_module("pyprob")
    importlib.import_module("pyprob.distributions")
    pyprob.seed(1)
    model = make_model(pyprob, torch)
    answers.write(json.dumps({"pyprob": pyprob.__version__, "torch": torch.__version__}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps({"seconds": do(pyprob, model, json.loads(line))}) + "\n")


if __name__ == "__main__":
    main()
