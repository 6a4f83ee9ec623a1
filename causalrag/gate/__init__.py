"""The gate: whether to switch the re-ranker on for a corpus, from labelled probes (section 4.6).

The decision and the number of probes it takes are in `decision`, the paper's bootstrap of it in
`bootstrap`; the label-free statistics of a query, and how well one of them tells two groups apart,
in `statistics`; what keeps probes and test queries apart, in `split`. The gains come from
`evaluate`.
"""

from causalrag.gate.bootstrap import Counts, Outcomes, outcomes, reliability
from causalrag.gate.decision import Decision, decide, fewest_probes, probes_needed
from causalrag.gate.split import split
from causalrag.gate.statistics import (
    AreaEstimate,
    Statistics,
    auc,
    candidate_statistics,
    statistics,
)

__all__ = [
    "AreaEstimate",
    "Counts",
    "Decision",
    "Outcomes",
    "Statistics",
    "auc",
    "candidate_statistics",
    "decide",
    "fewest_probes",
    "outcomes",
    "probes_needed",
    "reliability",
    "split",
    "statistics",
]
