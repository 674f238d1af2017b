"""Judges: models that are asked about pictures, through an endpoint or in this process, and remembered."""

from spatialbench.scorers.judge.answers import (
    Agreement,
    Coverage,
    RecordedJudge,
    agreement,
    answers_text,
    coverage,
    doubts,
    read_answers,
    repeated,
    timings_text,
)
from spatialbench.scorers.judge.cache import JudgeCache, default_cache
from spatialbench.scorers.judge.calls import Tally
from spatialbench.scorers.judge.contract import Answer, Judge, Question
from spatialbench.scorers.judge.images import JudgeImage, Picture, clip_pictures, judge_image, read_picture
from spatialbench.scorers.judge.open import judge_status, open_judge
from spatialbench.scorers.judge.prompts import Prompt, load_prompt, prompt_names
from spatialbench.scorers.judge.session import JudgeSession
from spatialbench.scorers.judge.settings import JudgeSettings, judge_settings

__all__ = [
    "Agreement",
    "Answer",
    "Coverage",
    "Judge",
    "JudgeCache",
    "JudgeImage",
    "JudgeSession",
    "JudgeSettings",
    "Picture",
    "Prompt",
    "Question",
    "RecordedJudge",
    "Tally",
    "agreement",
    "answers_text",
    "clip_pictures",
    "coverage",
    "default_cache",
    "doubts",
    "judge_image",
    "judge_settings",
    "judge_status",
    "load_prompt",
    "open_judge",
    "prompt_names",
    "read_answers",
    "read_picture",
    "repeated",
    "timings_text",
]
