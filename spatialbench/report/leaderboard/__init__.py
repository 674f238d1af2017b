"""Tables and the page of many worlds and systems."""

from spatialbench.report.leaderboard.data import Board, Reading, board_json, make_board, plan_of
from spatialbench.report.leaderboard.html import render_board
from spatialbench.report.leaderboard.tables import csv_text, latex_text, markdown_text, print_board

__all__ = ["Board", "Reading", "board_json", "csv_text", "latex_text", "make_board", "markdown_text", "plan_of",
           "print_board", "render_board"]
