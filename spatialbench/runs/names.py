"""Names of files that are not there, and the files that were probably meant."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["nearest"]

_NEAR = 0.75
_MAX_PAIRS = 100_000
"""Of names; beyond it similar names are not looked for."""


def nearest(expected: Iterable[str], files: Iterable[str], shared: frozenset[str] = frozenset()
            ) -> dict[str, tuple[str, str]]:
    """For names that are not there, the file that was probably meant, and in what it differs.

    In this order: letter case; suffix; both; folder (unless the name without it is ``shared`` by several that are
    expected, in lower case); a similar name, whose numbers must be the expected ones (more may follow them). Each file
    serves once, the best pair first.
    """
    wanted, names = sorted(set(expected)), [_Name.of(f) for f in sorted(set(files))]
    by: dict[tuple[str, object], list[_Name]] = {}
    for n in names:
        starts = [("ints", n.ints[:k]) for k in range(len(n.ints) + 1)]
        for key in (("stem", n.stem), ("base", n.base), *starts):
            by.setdefault(key, []).append(n)
    compare = sum(len(by.get(("ints", _Name.of(w).ints), ())) for w in wanted) <= _MAX_PAIRS
    pairs = []
    for text in wanted:
        want = _Name.of(text)
        for have in by.get(("stem", want.stem), ()):
            case, suffix = have.own_stem != want.own_stem, have.suffix != want.suffix
            how = "letter case and suffix" if case and suffix else "suffix" if suffix else "letter case"
            pairs.append((2 * suffix + case if suffix else 0, -1.0, how, text, have.text))
        for have in by.get(("base", want.base), ()) if want.base not in shared else ():
            pairs.append((4, -_likeness(want.stem, have.stem), "folder", text, have.text))
        for have in by.get(("ints", want.ints), ()) if compare else ():
            if (least := want.likeness(have)) >= _NEAR:
                pairs.append((5, -least, "name", text, have.text))
    out: dict[str, tuple[str, str]] = {}
    used: set[str] = set()
    for _, _, how, text, found in sorted(pairs):
        if text not in out and found not in used:
            out[text] = (found, how)
            used.add(found)
    return out


@dataclass(frozen=True)
class _Name:
    """A path and what is compared of it: lower-case stem (with its folders) and base name, numbers, suffix."""

    text: str
    own_stem: str
    stem: str
    base: str
    suffix: str
    ints: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> _Name:
        stem, suffix = posixpath.splitext(text)
        ints = tuple(int(d[:300]) for d in re.findall(r"[0-9]+", stem))
        return cls(text, stem, stem.lower(), posixpath.basename(text).lower(), suffix.lower(), ints)

    def likeness(self, other: _Name) -> float:
        """Of the least like pair of folders or names; 0 for another depth."""
        a, b = self.stem.split("/"), other.stem.split("/")
        return min(map(_likeness, a, b)) if len(a) == len(b) else 0.0


@lru_cache(maxsize=1 << 16)
def _likeness(a: str, b: str) -> float:
    if a == b:
        return 1.0
    match = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return match.ratio() if match.real_quick_ratio() >= _NEAR and match.quick_ratio() >= _NEAR else 0.0
