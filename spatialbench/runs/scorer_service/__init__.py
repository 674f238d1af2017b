"""One process on a machine opens the learned scorers of a batch once, and serves all its workers over a local socket.

``service`` starts it and watches it, for the coordinator; ``server`` is the process; ``client`` is what metrics of a
worker see in place of a ``ScorerBox``; ``wire`` is what goes between them.
"""
