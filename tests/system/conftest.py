"""The models of the tests of budgets (budget_tools.py), built once and started as a test likes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from budget_tools import build_models

import ars


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The executable; its first argument is the name of a model."""
    return build_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def start(
    request: pytest.FixtureRequest, models: str, started: Callable[[ars.Simulator], ars.Simulator]
) -> Callable[..., ars.Simulator]:
    """Starts a model, with as many workers as the module's ``WORKERS`` says, else 4."""
    workers = getattr(request.module, "WORKERS", 4)

    def make(*arguments: str, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([models, *arguments], **{"workers": workers, **options}))

    return make
