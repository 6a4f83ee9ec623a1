"""Runs, measures, and numbers with their uncertainty.

Measures of a run are in `measures` and `runs`, intervals of correlations and proportions in
`estimates`, means and paired tests in `paired`, several tests at once in `families`, rounding in
`rounding`; this module gathers them. Every figure that decides a claim is an `Estimate`.
"""

from causalrag.evaluate.estimates import Estimate, correlation, proportion
from causalrag.evaluate.families import holm, holm_levels
from causalrag.evaluate.measures import evaluate
from causalrag.evaluate.paired import (
    MeanEstimate,
    SignEstimate,
    mean,
    paired_difference,
    sign_test,
)
from causalrag.evaluate.rounding import half_up
from causalrag.evaluate.runs import run_from_rankings

__all__ = [
    "Estimate",
    "MeanEstimate",
    "SignEstimate",
    "correlation",
    "evaluate",
    "half_up",
    "holm",
    "holm_levels",
    "mean",
    "paired_difference",
    "proportion",
    "run_from_rankings",
    "sign_test",
]
