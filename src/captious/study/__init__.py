"""Human ratings against measurements: which metric agrees with people, and is the difference real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.study.agreement import Agreement, rater_agreement
    from captious.study.combine import Combination, combine_metrics
    from captious.study.lengths import LengthRegimes, length_regimes
    from captious.study.load import load_ratings, load_scores
    from captious.study.options import StudyInput
    from captious.study.power import Power, simulate_power
    from captious.study.ratings import Preferences, Ratings, open_ratings, open_recipe
    from captious.study.recipes import RECIPES, Layout, Recipe
    from captious.study.scores import Scores
    from captious.study.study import Study, correlate

_HOMES = {
    "RECIPES": "recipes",
    "Agreement": "agreement",
    "Combination": "combine",
    "Layout": "recipes",
    "LengthRegimes": "lengths",
    "Power": "power",
    "Preferences": "ratings",
    "Ratings": "ratings",
    "Recipe": "recipes",
    "Scores": "scores",
    "Study": "study",
    "StudyInput": "options",
    "combine_metrics": "combine",
    "correlate": "study",
    "length_regimes": "lengths",
    "load_ratings": "load",
    "load_scores": "load",
    "open_ratings": "ratings",
    "open_recipe": "ratings",
    "rater_agreement": "agreement",
    "simulate_power": "power",
}

__all__ = [
    "RECIPES",
    "Agreement",
    "Combination",
    "Layout",
    "LengthRegimes",
    "Power",
    "Preferences",
    "Ratings",
    "Recipe",
    "Scores",
    "Study",
    "StudyInput",
    "combine_metrics",
    "correlate",
    "length_regimes",
    "load_ratings",
    "load_scores",
    "open_ratings",
    "open_recipe",
    "rater_agreement",
    "simulate_power",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"captious.study.{_HOMES[name]}"), name)
