"""A world in the browser: its geometry, what metrics found in it, its scores. viser is imported on first use."""

from spatialbench.viewer.scores import SavedResult, Scores, read_result, scores_of
from spatialbench.viewer.server import open_server, page_address
from spatialbench.viewer.session import View

__all__ = ["SavedResult", "Scores", "View", "open_server", "page_address", "read_result", "scores_of"]
