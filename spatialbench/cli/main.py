"""Entry point: the command group, error reporting and exit codes.

0 done, 1 failed, 2 bad usage or input, 130 interrupted.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Any

import click

from spatialbench import __version__
from spatialbench.errors import SpatialbenchError

__all__ = ["cli", "main"]

# Commands are imported when they are called, so that --help stays fast.
_COMMANDS = {
    "run": ("spatialbench.cli.run", "run", "Score one world and write a page that says why."),
    "edit": ("spatialbench.cli.edit", "edit", "Score a world before and after an edit."),
    "expand": ("spatialbench.cli.expand", "expand", "Score a world before and after it was made larger."),
    "batch": ("spatialbench.cli.batch", "batch", "Score many worlds; can be stopped and continued."),
    "summarize": ("spatialbench.cli.summarize", "summarize", "Tables and a page of many results, with intervals."),
    "compare": ("spatialbench.cli.compare", "compare", "Two systems on the same cases, with tests."),
    "inspect": ("spatialbench.cli.inspect", "inspect", "Say what a file is and what the importer makes of it."),
    "render": ("spatialbench.cli.render", "render", "Pictures, films and depths of a world from any cameras."),
    "view": ("spatialbench.cli.view", "view", "Show a world and what metrics found in it, in the browser."),
    "place": ("spatialbench.cli.place", "place",
              "Put plates or other things on a support, and show what becomes of them."),
    "convert": ("spatialbench.cli.convert", "convert", "Write a world in another format and in the world frame."),
    "navmesh": ("spatialbench.cli.navmesh", "navmesh", "Where an agent can walk on a mesh: areas, picture, paths."),
    "suite": ("spatialbench.cli.suite", "suite", "Check what a suite of cases and systems has and lacks."),
    "case": ("spatialbench.cli.case_init", "case", "Begin a case from what is found in a world; list its keys."),
    "protocols": ("spatialbench.cli.protocols", "protocols", "List, show and compare protocols."),
    "judge": ("spatialbench.cli.judge", "judge", "Ask the model that judges pictures; look after its answers."),
    "weights": ("spatialbench.cli.weights", "weights", "List, fetch and verify the weights of learned scorers."),
    "doctor": ("spatialbench.cli.doctor", "doctor", "Say which backends and scorers can be used here."),
    "metrics": ("spatialbench.cli.metrics", "metrics", "List every metric with its range and what it needs."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="spatialbench")
def cli() -> None:
    """Tells whether a generated world holds up when it is used.

    Start with:  spatialbench run WORLD
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line; our own errors become one sentence, without a traceback unless --debug."""
    argv = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in argv
    argv = [a for a in argv if a != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows another, instead of failing
    try:
        code: Any = cli.main(args=argv, prog_name="spatialbench", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except SpatialbenchError as error:
        if debug:
            raise
        from spatialbench.types.words import one_line

        click.echo(f"error: {one_line(str(error))}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        if debug:
            raise
        click.echo("error: this takes more memory than there is. Give a smaller world, or larger cells and smaller "
                   "images with --set", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        if debug:
            raise
        click.echo(f"error: {error.filename or 'the output'}: {error.strerror or error}. Check the disk and the "
                   "permissions; --debug says where it happened", err=True)
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        click.echo(f"internal error: {type(error).__name__}: {error}. This is a fault of spatialbench; "
                   "run again with --debug and report what it prints", err=True)
        sys.exit(1)
