"""The command line: `gradtape demo`, `gradtape run`. Each subcommand adds its arguments and has one function that runs it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gradtape.config import VERSION
from gradtape.tools import runner


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="gradtape", description="Automatic differentiation with a tape.")
    parser.add_argument("--version", action="version", version=f"gradtape {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="a tour in under a minute, ending with a picture and a report")
    demo.add_argument(
        "--output",
        default="demo_output/demo.svg",
        help="where the picture goes, and beside it report.html (default: %(default)s)",
    )
    demo.add_argument("--steps", type=_positive, default=1000, help="training steps (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="seed of data and weights (default: %(default)s)")
    demo.set_defaults(run=_demo)
    run = commands.add_parser(
        "run",
        help="run a script and write a page about every tape in it",
        usage="gradtape run [-h] [--report FILE] [--no-profile] [--no-pictures] [-m] script [arguments] [--report FILE]",
        description="Run a script unchanged and write one page about every tape in it: gradients, Nones, NaNs, times, graphs.",
    )
    runner.add_arguments(run)
    run.set_defaults(run=runner.run)
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _demo(options: argparse.Namespace) -> int:
    from gradtape.tools import demo

    demo.run(options.output, options.steps, options.seed)
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {value}")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
