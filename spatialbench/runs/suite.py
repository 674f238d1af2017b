"""What a suite, or a folder of worlds, gives to run: each case of each system with its files."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spatialbench.errors import UsageError
from spatialbench.runs.listing import Contents, Listing, list_files, matcher, nearest
from spatialbench.tracks.spatial.evidence import evidence_names
from spatialbench.tracks.spatial.object_evidence import object_files
from spatialbench.types.case import WORLD_CASES, Case, EditCase, ExpandCase, SnapshotCase
from spatialbench.types.case_parts import resolve_reference
from spatialbench.types.suite import Suite
from spatialbench.types.suite_file import ROLES, SuiteCase

__all__ = ["PlannedWorld", "Problem", "SuitePlan", "plan_suite"]

State = Literal["ready", "missing", "refused", "unsupported"]
_CLIPS = ("video", "embodied")


@dataclass(frozen=True, eq=False)
class PlannedWorld:
    """One case of one system.

    Attributes
    ----------
    case_id, system : how its measurements are filed; together unique in a plan.
    kind : of the case; ``snapshot`` for the worlds of a folder.
    paths : file by role (``main``, or ``before`` and ``after``), where it is or should be; a role whose pattern is a
        glob without just one match is left out. Files of the case's evidence too, as ``evidence.judge`` and so on, and
        its side-cars (``sidecar.0``...; ``sidecar.0.cameras`` is what lies beside a model of COLMAP).
    state : ``ready`` when all roles are there; ``missing`` or ``refused`` (not a world, or not a clip) when one is not;
        ``unsupported`` when the suite says that the system cannot express the case.
    case : what was asked, with the system's profile where it names none; None for the worlds of a folder.
    case_folder : folder that the paths in the case are relative to.
    """

    case_id: str
    system: str
    kind: str
    paths: dict[str, Path]
    state: State
    case: Case | None = None
    case_folder: Path | None = None


@dataclass(frozen=True)
class Problem:
    """Something that is not as the suite says.

    Attributes
    ----------
    kind : ``missing`` (no file), ``misnamed`` (one whose name is near), ``ambiguous`` (a glob with several matches),
        ``refused`` (not a world or clip by its content).
    system, case_id, role : of what; the system is empty and the role ``image`` for the input image of a case, or
        ``evidence.`` and its key for evidence.
    expected : path or pattern, relative to the root (an image or evidence: to the suite's folder); empty in a folder's
        plan.
    found : what is there instead, or matches.
    note : in what a name differs, or what a refused file is.
    """

    kind: Literal["missing", "misnamed", "ambiguous", "refused"]
    system: str
    case_id: str
    role: str
    expected: str
    found: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class SuitePlan:
    """What is there to run, in the order of the suite (systems, then cases) or of the paths in a folder.

    Attributes
    ----------
    root : what paths are relative to.
    suite : or None for a folder.
    worlds : every case of every system, whatever its state.
    problems : in the order of ``worlds``.
    extra : world files (or clips) beside the expected ones that no case claims, relative to ``root``.
    notes : links that were not followed, folders that cannot be listed, groups without a second branch.
    """

    root: Path
    suite: Suite | None
    worlds: tuple[PlannedWorld, ...]
    problems: tuple[Problem, ...] = ()
    extra: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> tuple[PlannedWorld, ...]:
        """What can be run."""
        return tuple(w for w in self.worlds if w.state == "ready")

    def having(self, kind: str) -> tuple[Problem, ...]:
        """The problems of one kind."""
        return tuple(p for p in self.problems if p.kind == kind)


def plan_suite(suite: Suite, root: Path | None = None) -> SuitePlan:
    """Find the outputs that a suite names. Files are told by their first MiB; none is loaded.

    Parameters
    ----------
    root : folder that the patterns are relative to; the suite's own when None. Links out of it are not followed.

    Raises
    ------
    MissingInputError : no such folder.
    UsageError : not one output is there; the message says what was looked for.
    """
    root = suite.folder if root is None else Path(root)
    listing = list_files(root)
    search = _Search(suite, listing, Contents(listing))
    worlds = [search.plan(c, name) for name in suite.systems for c in suite.cases]
    if not any(search.claimed.values()) and any(w.state != "unsupported" for w in worlds):
        raise _nothing(suite, listing, search)
    problems = search.named(search.problems)
    shown = {f for p in problems for f in p.found}
    extra = tuple(f for f in search.unclaimed() if f not in shown and search.beside(f))
    return SuitePlan(root, suite, tuple(worlds), (*_beside(suite), *search.lacking_evidence(), *problems), extra,
                     (*listing.notes, *_lone_branches(suite)))


class _Search:
    """Looks for outputs; ``claimed`` has, for each expected path or pattern, the files that answer it."""

    def __init__(self, suite: Suite, listing: Listing, contents: Contents) -> None:
        self.suite, self.listing, self.contents = suite, listing, contents
        self.files = frozenset(listing.files)
        self.claimed: dict[str, tuple[str, ...]] = {}
        self.problems: list[Problem] = []
        self.clips = any(c.case.kind in _CLIPS for c in suite.cases)
        self.worlds = any(c.case.kind not in _CLIPS for c in suite.cases)
        self._others: tuple[str, ...] | None = None
        self._evidence: dict[str, dict[str, Path]] = {}

    def plan(self, c: SuiteCase, system: str) -> PlannedWorld:
        case, outputs = c.case, self.suite.systems[system]
        paths: dict[str, Path] = {}
        state: State = "ready"
        roles = () if case.id in outputs.unsupported else ROLES[case.kind]
        for role in roles:
            pattern = outputs.pattern(case.id, case.kind, role, system)
            assert pattern is not None  # load_suite has checked it
            problem = self._find(pattern, case.kind in _CLIPS)
            if problem is not None:
                kind, found, note = problem
                self.problems.append(Problem(kind, system, case.id, role, pattern, found, note))
                state = "refused" if kind == "refused" and state != "missing" else "missing"
            if len(self.claimed[pattern]) == 1:
                paths[role] = self.listing.root / self.claimed[pattern][0]
            elif not _is_glob(pattern):
                paths[role] = self.listing.root / pattern
        if outputs.profile is not None and isinstance(case, WORLD_CASES) and case.profile is None:
            case = case.model_copy(update={"profile": outputs.profile})
        if roles:
            paths |= {**self._evidence_of(c), **_side_cars(c)}
        return PlannedWorld(case.id, system, case.kind, paths, state if roles else "unsupported", case, c.folder)

    def _evidence_of(self, c: SuiteCase) -> dict[str, Path]:
        case, root = c.case, self.suite.folder
        if not isinstance(case, SnapshotCase | EditCase | ExpandCase):
            return {}
        if case.id not in self._evidence:
            where = f"{c.where}, key '{'objects' if isinstance(case, SnapshotCase) else 'evidence'}'"

            def at(name: str) -> Path:
                return resolve_reference(name, c.folder, root, where)

            def there(name: str) -> bool:
                return at(name).is_file()

            names = object_files(case, there) if isinstance(case, SnapshotCase) else evidence_names(case, there)
            self._evidence[case.id] = {f"evidence.{key}": at(name) for key, name in names.items()}
        return self._evidence[case.id]

    def lacking_evidence(self) -> Iterator[Problem]:
        """Files of evidence that are not there, in the order of the suite."""
        for case_id, files in self._evidence.items():
            for role, path in files.items():
                if not path.is_file():
                    inside = posixpath.relpath(path.as_posix(), self.suite.folder.absolute().as_posix())
                    yield Problem("missing", "", case_id, role, inside)

    def _find(self, pattern: str, clip: bool
              ) -> tuple[Literal["missing", "ambiguous", "refused"], tuple[str, ...], str] | None:
        if not _is_glob(pattern):
            there = pattern in self.files
            self.claimed[pattern] = (pattern,) if there else ()
            why = self.contents.refusal(pattern, clip) if there else ""
            return ("refused", (pattern,), why) if why else None if there else ("missing", (), "")
        fits = matcher(pattern)
        found = tuple(f for f in self.listing.files if fits(f))
        good = tuple(f for f in found if self.contents.accepts(f, clip))
        parts = {p for f in good for p in self.contents.parts_of(f)}
        good = tuple(f for f in good if f not in parts)
        self.claimed[pattern] = good
        if len(good) > 1:
            return "ambiguous", good, f"{len(good)} files match"
        if not good and found:
            return "refused", found[:4], self.contents.refusal(found[0], clip) or "is part of another file"
        return None if good else ("missing", (), "")

    def unclaimed(self) -> tuple[str, ...]:
        """Worlds and clips that nothing expected is answered by."""
        if self._others is None:
            claimed = {f for files in self.claimed.values() for f in files}
            claimed |= {f for p in self.problems for f in p.found}
            some = [f for f in self.listing.files if f not in claimed and (
                (self.worlds and self.contents.accepts(f, False)) or (self.clips and self.contents.accepts(f, True)))]
            parts = {p for f in (*some, *claimed) for p in self.contents.parts_of(f)}
            self._others = tuple(f for f in some if f not in parts)
        return self._others

    def named(self, problems: list[Problem]) -> list[Problem]:
        """The problems, with a near name where something is missing and there is one."""
        bases = Counter(posixpath.basename(p).lower() for p in self.claimed)
        shared = frozenset(b for b, n in bases.items() if n > 1)
        gone = [p.expected for p in problems if p.kind == "missing" and not _is_glob(p.expected)]
        near = nearest(gone, self.unclaimed() if gone else (), shared)
        return [Problem("misnamed", p.system, p.case_id, p.role, p.expected, (near[p.expected][0],),
                        near[p.expected][1]) if p.kind == "missing" and p.expected in near else p for p in problems]

    def beside(self, name: str) -> bool:
        """Whether a file lies in the folder of one of the patterns."""
        return any(name.startswith(folder) for folder in self._folders())

    def _folders(self) -> set[str]:
        out = set()
        for system, outputs in self.suite.systems.items():
            for text in outputs.outputs.values():
                start = re.split(r"[{*?]", posixpath.normpath(text).replace("{system}", system))[0]
                out.add(start.rpartition("/")[0] + "/" if "/" in start else "")
        return out


def _is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _nothing(suite: Suite, listing: Listing, search: _Search) -> UsageError:
    patterns = [f"'{t}'" for s in suite.systems.values() for t in s.outputs.values()]
    some = ", ".join(dict.fromkeys(patterns[:6])) + (", ..." if len(patterns) > 6 else "")
    first = next(iter(search.claimed))
    near = [p for p in search.named(search.problems) if p.kind == "misnamed"]
    if near:
        todo = f"Nearest to '{near[0].expected}' is '{near[0].found[0]}': correct the pattern, or rename the files"
    elif search.unclaimed():
        todo = f"There are other worlds or clips, such as '{search.unclaimed()[0]}': correct the pattern"
    else:
        todo = "No world and no clip is there at all; --worlds names another folder"
    links = f"; {listing.notes[0]}" if listing.notes else ""
    return UsageError(f"not one output was found: looked for {some} ({len(search.claimed):,} paths, the first is "
                      f"'{first}') in the folder '{listing.root.absolute()}'{links}", where=str(suite.path), todo=todo)


def _beside(suite: Suite) -> Iterator[Problem]:
    for c in suite.cases:
        if c.image is not None and not c.image.is_file():
            inside = posixpath.relpath(c.image.absolute().as_posix(), suite.folder.absolute().as_posix())
            yield Problem("missing", "", c.case.id, "image", inside)
        for path in c.side_cars:
            if not path.exists():
                inside = posixpath.relpath(path.absolute().as_posix(), suite.folder.absolute().as_posix())
                yield Problem("missing", "", c.case.id, "sidecar", inside)


def _side_cars(c: SuiteCase) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for k, path in enumerate(c.side_cars):
        at = path / "images.txt" if path.is_dir() else path
        at = at.with_name("images.txt") if at.name == "cameras.txt" else at
        found[f"sidecar.{k}"] = at
        if at.name == "images.txt" and (lenses := at.with_name("cameras.txt")).is_file():
            found[f"sidecar.{k}.cameras"] = lenses
    return found


def _lone_branches(suite: Suite) -> Iterator[str]:
    pairs = [c.case.pair for c in suite.cases if c.case.kind == "embodied" and c.case.pair is not None]
    for group in sorted(g for g, n in Counter(p.group for p in pairs).items() if n == 1):
        yield f"the group '{group}' has one branch only, and is left out of CBF"
