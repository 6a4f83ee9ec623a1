"""Documents that attract a given query without answering it, to measure what a ranker does to them.

Seven ways of making them (`ATTACKS`), each with the threat it models (`THREATS`). The generator is
in `generator`, its sentences in `carriers`.
"""

from causalrag.stuffing.generator import ATTACKS, THREATS, Stuffed, Stuffer, stuff

__all__ = ["ATTACKS", "THREATS", "Stuffed", "Stuffer", "stuff"]
