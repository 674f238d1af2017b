"""Learned scorers and judges: which there are, and which can be used here."""

from spatialbench.scorers.catalogue import ScorerInfo, scorer, scorers

__all__ = ["ScorerInfo", "scorer", "scorers"]
