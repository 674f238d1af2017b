"""``spatialbench judge``: try the model that judges, see what it is asked, and look after the answers that are kept."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from spatialbench.cli.say import wide_console

if TYPE_CHECKING:
    from spatialbench.runs.scoring import LentJudge
    from spatialbench.scorers.judge import Answer, JudgeCache, JudgeSession, Prompt, Question, Tally

__all__ = ["describe", "judge", "say_judge"]


@click.group()
def judge() -> None:
    """Ask the model that judges pictures; list its prompts; look after its answers.

    Which model is asked, where and with whose key: --judge FILE.yaml or the environment (docs/judges.md).
    """


@judge.command()
@click.argument("prompt")
@click.argument("pictures", nargs=-1, type=click.Path(path_type=Path))
@click.option("--field", "fields", multiple=True, metavar="NAME=TEXT", help="A text that the prompt asks for.")
@click.option("--item", "items", multiple=True, metavar="ID=TEXT", help="An item of a checklist; may be repeated.")
@click.option("--each", is_flag=True, help="Ask about each picture by itself [default: one question about all].")
@click.option("--judge", "file", type=click.Path(path_type=Path), metavar="FILE", help="Judge file.")
@click.option("--model", help="Ask this model instead.")
@click.option("--repeats", type=click.IntRange(1, 9), default=1, show_default=True, help="Ask so many times.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Ask at most N questions.")
@click.option("--max-cost", type=click.FloatRange(min=0), metavar="AMOUNT",
              help="Stop before the call that could pass it; needs a known price.")
@click.option("--dry-run", is_flag=True, help="Ask nothing; say what it would take.")
@click.option("--no-cache", "cache", flag_value="off", help="Neither look up answers nor keep them.")
@click.option("--refresh-cache", "cache", flag_value="refresh", help="Ask anew, and keep the new answers.")
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="Write answers.jsonl and timings.jsonl to this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def ask(prompt: str, pictures: tuple[Path, ...], fields: tuple[str, ...], items: tuple[str, ...], each: bool,
        file: Path | None, model: str | None, repeats: int, limit: int | None, max_cost: float | None, dry_run: bool,
        cache: Literal["off", "refresh"] | None, out: Path | None, as_json: bool) -> None:
    """Ask PROMPT (see 'judge prompts') about PICTURES, and show the answer and what it cost.

    Ends with 1 when a question has no answer.
    """
    from spatialbench.cli.progress import progress_line
    from spatialbench.errors import UsageError
    from spatialbench.runs.store import prepare_folder, write_text
    from spatialbench.scorers.judge import (
        answers_text,
        doubts,
        judge_settings,
        load_prompt,
        open_judge,
        repeated,
        timings_text,
    )
    from spatialbench.types.judge import JudgeRules

    questions = repeated(_questions(load_prompt(prompt), pictures, _pairs(fields, "--field"), _pairs(items, "--item"),
                                    each), repeats)
    settings = judge_settings(file)
    if model is not None:
        if settings is None:
            raise UsageError("a model is named, but no endpoint", where="--model", todo="See docs/judges.md")
        settings = settings.model_copy(update={"model": model})
    if out is not None:
        prepare_folder(out)
    with progress_line(not as_json) as tell:
        session = open_judge(JudgeRules(), settings, cache=cache or "use", max_cost=max_cost, limit=limit,
                             dry_run=dry_run, tell=lambda done, total: tell("asking the judge", done, total))
        try:
            answers = session.ask(questions)
        finally:
            session.close()
    if out is not None:
        write_text(out / "answers.jsonl", answers_text(answers))
        write_text(out / "timings.jsonl", timings_text(answers))
    if as_json:
        click.echo(json.dumps({"answers": [json.loads(line) for line in answers_text(answers).splitlines()],
                               "tally": vars(session.tally), "doubts": doubts(answers)}))
    else:
        if not dry_run:
            for a in answers:
                click.echo(_line(a, repeats))
        click.echo(describe(session.tally, session, dry_run))
        for doubt in doubts(answers):
            click.echo(f"warning: {doubt}")
    if not dry_run and any(a.status != "answered" for a in answers):
        raise SystemExit(1)


def say_judge(judge: LentJudge | None) -> None:
    """What a run has asked of the judge, if it has asked or would have."""
    if judge is None:
        return
    session = judge.session
    if judge.answers:
        from spatialbench.scorers.judge import doubts

        click.echo(describe(session.tally, session, session.dry_run))
        for doubt in doubts(judge.answers):
            click.echo(f"warning: {doubt}")


def describe(tally: Tally, session: JudgeSession, dry_run: bool = False) -> str:
    """One line about calls, tokens and money."""
    def money(amount: float | None) -> str:
        return "price not known" if amount is None else f"{amount:.4f} {tally.currency}"

    kept = f"{tally.cached} answered from the cache"
    who = f"{session.backend.model} at {session.backend.endpoint}"
    if dry_run:
        return (f"{who}: would make {tally.calls} calls with {tally.images} pictures, about {tally.input:,} tokens in "
                f"and at most {tally.output:,} out, {money(tally.cost)}; {kept}")
    text = (f"{who}: {tally.calls} calls with {tally.images} pictures, {tally.input:,} tokens in, {tally.output:,} "
            f"out, {money(tally.cost)}; {kept}")
    if tally.cached and tally.saved is not None:
        text += f" ({money(tally.saved)} saved)"
    if tally.errors or tally.not_asked:
        text += f"; {tally.errors} without a usable answer, {tally.not_asked} not asked"
    return text


def _questions(prompt: Prompt, paths: tuple[Path, ...], fields: dict[str, str], items: dict[str, str],
               each: bool) -> list[Question]:
    from spatialbench.scorers.judge import Picture, Question, read_picture

    pictures = [Picture(read_picture(p, prompt.pictures.max_side)) for p in paths]
    if not each:
        return [Question(prompt.id, prompt, tuple(pictures), fields, items)]
    return [Question(f"{k:04d} {path.name}", prompt, (picture,), fields, items)
            for k, (path, picture) in enumerate(zip(paths, pictures, strict=True), 1)]


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or name in out:
            raise click.BadParameter(f"'{text[:80]}' is not NAME=TEXT with a new name", param_hint=option)
        out[name] = value
    return out


def _line(answer: Answer, repeats: int) -> str:
    name = answer.id + (f" [{answer.repeat}]" if repeats > 1 else "")
    if answer.status != "answered":
        return f"{name}: {answer.status}: {answer.reason}"
    said = [f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in {**answer.values, **answer.items}.items()]
    return f"{name}: {', '.join(said)}" + (" (cached)" if answer.timing.get("cached") else "")


@judge.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def prompts(name: str | None, as_json: bool) -> None:
    """List the packaged prompts, or show NAME (or a YAML file) in full with its hash."""
    from spatialbench.scorers.judge import load_prompt, prompt_names

    if name is None:
        rows: list[dict[str, Any]] = [
            {"name": p.name, "metrics": list(p.metrics), "keys": list(p.answer), "fields": list(p.fields),
             "sha256": p.sha256} for p in map(load_prompt, prompt_names())]
        if as_json:
            click.echo(json.dumps(rows))
            return
        _table(("prompt", "metrics", "answers", "fields", "sha256"), [
            (r["name"], ", ".join(r["metrics"]), ", ".join(r["keys"]), ", ".join(r["fields"]), str(r["sha256"])[:12])
            for r in rows])
        return
    prompt = load_prompt(name)
    data = prompt.model_dump(mode="json", by_alias=True, exclude_none=True)
    if as_json:
        click.echo(json.dumps({"sha256": prompt.sha256, "prompt": data}))
    else:
        import yaml

        click.echo(f"# sha256: {prompt.sha256}")
        click.echo(yaml.safe_dump(data, sort_keys=False, width=110, allow_unicode=True), nl=False)


@judge.group()
def cache() -> None:
    """Look after the answers that are kept, so that nobody pays for them twice."""


@cache.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def list_(as_json: bool) -> None:
    """List answers by endpoint, model and prompt."""
    with closing(_open()) as store:
        groups = store.groups()
    if as_json:
        click.echo(json.dumps([vars(g) for g in groups]))
    else:
        _table(("endpoint", "model", "prompt", "answers", "kB", "first", "last"), [
            (g.endpoint, g.model, g.prompt, str(g.answers), f"{g.bytes / 1e3:.0f}", _day(g.first), _day(g.last))
            for g in groups])


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def stats(as_json: bool) -> None:
    """Say where the cache is, how many answers it has and how large it is."""
    with closing(_open()) as store:
        groups = store.groups()
    data: dict[str, Any] = {
        "path": str(store.path), "answers": sum(g.answers for g in groups), "models": len({g.model for g in groups}),
        "prompts": len({g.prompt for g in groups}), "bytes": sum(g.bytes for g in groups),
        "file_bytes": store.path.stat().st_size if store.path.is_file() else 0}
    if as_json:
        click.echo(json.dumps(data))
    else:
        click.echo(f"{data['path']}: {data['answers']} answers of {data['models']} models to {data['prompts']} "
                   f"prompts, {data['bytes'] / 1e6:.1f} MB (file {data['file_bytes'] / 1e6:.1f} MB)")


@cache.command()
@click.option("--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="That came longer ago.")
@click.option("--model", help="Of this model.")
@click.option("--prompt", metavar="ID-VERSION", help="To this prompt.")
@click.option("--max-mb", type=click.FloatRange(min=0), metavar="MB", help="Afterwards, the oldest, down to this size.")
def prune(older_than: float | None, model: str | None, prompt: str | None, max_mb: float | None) -> None:
    """Drop answers for which all that is given holds."""
    if older_than is None and model is None and prompt is None and max_mb is None:
        raise click.UsageError("say which answers: --older-than, --model, --prompt or --max-mb; or use 'clear'")
    if max_mb is not None and not max_mb < 1e12:
        raise click.BadParameter("is no size", param_hint="--max-mb")
    with closing(_open()) as store:
        gone = store.prune(older_than=None if older_than is None else time.time() - older_than * 86_400, model=model,
                           prompt=prompt, most_bytes=None if max_mb is None else int(max_mb * 1e6))
    click.echo(f"{gone} answers dropped")


@cache.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(yes: bool) -> None:
    """Drop all answers."""
    with closing(_open()) as store:
        n = sum(g.answers for g in store.groups())
        if not yes:
            click.confirm(f"drop {n} answers in {store.path}?", abort=True)
        click.echo(f"{store.clear()} answers dropped")


def _open() -> JudgeCache:
    from spatialbench.scorers.judge import JudgeCache

    return JudgeCache()


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    wide_console().print(table)
