"""Stuffed documents: texts that attract a given query without answering it, made by rule.

Seven attacks (`ATTACKS`), each with the threat that it models (`THREATS`), at a chosen strength.
Nothing is scored here. The sentences are our own (`carriers`); the off-topic texts, near terms and
neighbours come from the caller's collection (`source`). A document depends on the arguments alone:
not on the process, the hash seed, the order of a mapping, or how many documents are asked for.
"""

from causalrag.stuffing.base import ATTACKS, THREATS, Stuffed
from causalrag.stuffing.stuffer import Stuffer, stuff

__all__ = ["ATTACKS", "THREATS", "Stuffed", "Stuffer", "stuff"]
