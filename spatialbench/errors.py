"""The errors that spatialbench raises for causes a user can do something about.

::

    SpatialbenchError                  every error below; ``exit_code`` says how the command ends
    ├── UsageError                     an option, a name or a combination that makes no sense     (2)
    │   └── ConfigError                a protocol or case file: unknown key, wrong value          (2)
    ├── InputError                     a file that was given                                      (2)
    │   ├── MissingInputError          it, or a file that it refers to, is not there              (2)
    │   ├── UnsupportedFormatError     it is something that is not read here, named as what it is (2)
    │   ├── CorruptInputError          it is not what its format promises                         (2)
    │   └── EmptyWorldError            nothing that could be rendered or walked on is left        (2)
    ├── BackendUnavailableError        a renderer, simulator or model cannot be used here         (1)
    ├── SimulationError                a simulator failed on this input                           (1)
    └── ResultError                    a result file is missing, half written or was changed      (1)

Each says *what* was wrong, *where* (a file, byte, line, field or element) and *what to do*.
"""

from __future__ import annotations


class SpatialbenchError(Exception):
    """Base of every error with a cause the user can act on.

    Parameters
    ----------
    what : one sentence without a full stop: what was wrong.
    where : file, byte, line, field or element it was found in.
    todo : what to do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        self.what, self.where, self.todo = what, where, todo
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}. {self.todo}" if self.todo else text

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions travel between worker processes; keyword-only arguments need help to do so.
        return (_rebuild, (type(self), self.what, self.where, self.todo))


def _rebuild(cls: type[SpatialbenchError], what: str, where: str, todo: str) -> SpatialbenchError:
    return cls(what, where=where, todo=todo)


class UsageError(SpatialbenchError):
    """An option, a name or a combination that makes no sense."""

    exit_code = 2


class ConfigError(UsageError):
    """A protocol or case file with an unknown key or a wrong value."""


class InputError(SpatialbenchError):
    """Something is wrong with a file that was given."""

    exit_code = 2


class MissingInputError(InputError):
    """A file, or a file that it refers to, is not there."""


class UnsupportedFormatError(InputError):
    """The file is something that is not read here; the message names what it is."""


class CorruptInputError(InputError):
    """The file is not what its format promises."""


class EmptyWorldError(InputError):
    """Nothing that could be rendered or walked on is in the file."""


class BackendUnavailableError(SpatialbenchError):
    """A renderer, simulator or model cannot be used on this machine."""


class SimulationError(SpatialbenchError):
    """A simulator failed on this input."""


class ResultError(SpatialbenchError):
    """A result file is missing, half written or was changed by hand."""
