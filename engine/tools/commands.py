"""The command line: ``fxrules check``, ``fmt``, ``infer``, ``list`` and ``run``.

Exit codes: 0 clean, 1 findings, 2 usage or input, 3 internal error. Torch is imported
only by the commands that need it.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
from rich.logging import RichHandler

from ... import __version__
from ...dsl.source import FxrulesError, Problem
from ..contracts import LEVELS
from . import screen
from .formatting import format_rules
from .rulefiles import rule_files

CLEAN, FINDINGS, USAGE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130

_paths = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILES...")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` are those of the process by default."""
    try:
        code = cli.main(arguments, prog_name="fxrules", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else CLEAN
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except FxrulesError as error:
        screen.show_problems(error.problems, to_stderr=True)
        return USAGE
    except BrokenPipeError:
        # The reader went away, as `head` does; Python would complain once more while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    except Exception:
        screen.show_internal_error(traceback.format_exc())
        return INTERNAL


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Log what the engine does.")
def cli(verbose: bool) -> None:
    """Declarative, verified pattern-rewrite rules for torch.fx graphs."""
    if verbose:
        logger = logging.getLogger("fxrules")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(RichHandler(console=screen.console(to_stderr=True), show_path=False))


@cli.command()
@_paths
def check(paths: tuple[Path, ...]) -> int:
    """Check rule files: syntax, names, arguments. Folders are searched for .rules files."""
    from .checking import check_file

    files = rule_files(paths)
    problems = [problem for path in files for problem in check_file(path)]
    screen.show_problems(problems)
    screen.show_summary(f"{_count(len(files), 'file')}: {_count(len(problems), 'problem')}")
    return FINDINGS if problems else CLEAN


@cli.command()
@_paths
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 where a file would change.")
def fmt(paths: tuple[Path, ...], only_check: bool) -> int:
    """Format rule files in place. Folders are searched for .rules files."""
    files = rule_files(paths)
    problems: list[Problem] = []
    changed = 0
    for path in files:
        formatted = format_rules(path)
        problems += formatted.problems
        if not formatted.changes:
            continue
        changed += 1
        if only_check:
            screen.show_line(f"{path}: would change")
        else:
            path.write_text(formatted.text, encoding="utf-8", newline="\n")
            screen.show_line(f"{path}: formatted")
    screen.show_problems(problems, to_stderr=True)
    verb = "would change" if only_check else "formatted"
    screen.show_summary(f"{_count(len(files), 'file')}, {changed} {verb}")
    if problems:
        return USAGE
    return FINDINGS if changed and only_check else CLEAN


@cli.command("list")
@click.argument("library", required=False)
def list_(library: str | None) -> int:
    """List the installed rule libraries, or the rules of one (a path works too)."""
    from .catalogue import library_table, rule_table

    screen.show_table(rule_table(library) if library else library_table())
    return CLEAN


@cli.command()
@click.argument("model")
@click.option("--rules", "rules", multiple=True, default=("std",), show_default=True, metavar="NAME|FILE",
              help="A rule library or a rule file; may be given several times.")  # fmt: skip
@click.option("--trust", multiple=True, metavar="MODULE", help="Let rules import Python helpers from this module.")
@click.option("--pipeline", metavar="NAME", help="Run this pipeline of the rule files; without one, all their rules.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.pt2",
              help="Save the rewritten model with torch.export.save.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the difference in the generated code and save nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--numerics", type=click.Choice(LEVELS), default="rounding", show_default=True,
              help="The weakest numeric contract that rules may have.")  # fmt: skip
@click.option("--freeze", is_flag=True, help="Let rules fold parameters into new constants (eval mode only).")
@click.option("--capture", type=click.Choice(["export", "trace"]), default="export", show_default=True,
              help="How an nn.Module becomes a graph.")  # fmt: skip
@click.option("--import", "imports", multiple=True, metavar="MODULE",
              help="Import this module first, as the classes in a .pt2 file may need.")  # fmt: skip
def run(
    model: str,
    rules: tuple[str, ...],
    trust: tuple[str, ...],
    pipeline: str | None,
    output: Path | None,
    dry_run: bool,
    as_json: bool,
    numerics: str,
    freeze: bool,
    capture: str,
    imports: tuple[str, ...],
) -> int:
    """Rewrite MODEL, compare the outputs before and after, and print the report.

    MODEL is module:factory (the factory returns a model, or a model and example inputs)
    or a .pt2 file that torch.export.save wrote.
    """
    from .running import Options, run_rules

    if dry_run and output:
        raise click.UsageError("--dry-run saves nothing: leave out --output")
    options = Options(rules, trust, numerics, freeze, capture, output, pipeline)
    with screen.stdout_for_json(as_json):
        outcome = run_rules(model, imports, options)
    screen.show_outcome(outcome, as_json=as_json, with_diff=dry_run)
    return CLEAN if outcome.ok else FINDINGS


@cli.command()
@click.argument("pattern", metavar="MODULE:PATTERN")
@click.argument("replacement", metavar="MODULE:REPLACEMENT")
@click.option("--name", metavar="NAME", help="The name of the rule; by default that of the pattern function.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.rules",
              help="Write the rule to this file.")  # fmt: skip
def infer(pattern: str, replacement: str, name: str | None, output: Path | None) -> int:
    """Print two Python functions as a rule, as torch.fx.replace_pattern takes them.

    The functions are traced, so their MODULE is imported: its code runs. It may be a file (patterns.py:gelu).
    """
    from .inferring import infer_text

    text = infer_text(pattern, replacement, name, output)
    if output is None:
        click.echo(text, nl=False)
    else:
        screen.show_line(f"{output}: written")
    return CLEAN


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
