"""Account for A instead of scoring B (beyond the papers).

The rule, its bend and the two settings are in `rule`; coefficients fitted on labelled probes in
`fitting`.
"""

from causalrag.adjust.fitting import Fitted, Probe, fit
from causalrag.adjust.rule import (
    DEFAULT,
    GUARD,
    NATURAL,
    Adjustment,
    Parts,
    Surface,
    bend,
    own_bend,
    read_surface,
    with_support,
)

__all__ = [
    "DEFAULT",
    "GUARD",
    "NATURAL",
    "Adjustment",
    "Fitted",
    "Parts",
    "Probe",
    "Surface",
    "bend",
    "fit",
    "own_bend",
    "read_surface",
    "with_support",
]
