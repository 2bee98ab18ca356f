"""The command line: `gradtape demo`, `run`, `launch`, `doctor`, `cache`, `completion`. Each subcommand adds its arguments and
has one function that runs it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gradtape.config import VERSION
from gradtape.distribute import launcher
from gradtape.tools import runner


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the result is the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gradtape", description="Automatic differentiation with a tape.")
    parser.add_argument("--version", action="version", version=f"gradtape {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
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
    launch = commands.add_parser(
        "launch",
        help="run a script on several ranks of this machine, its output labelled",
        description="Run one script in several processes that talk to one another by MPI (gt.distribute).",
    )
    launcher.add_arguments(launch)
    launch.set_defaults(run=launcher.launch)
    doctor = commands.add_parser("doctor", help="versions, processor, backend, cache, threads, a self-test")
    doctor.set_defaults(run=_doctor)
    cache = commands.add_parser("cache", help="the machine code that is kept on disk: show it, or empty it")
    cache.add_argument("--clear", action="store_true", help="remove all of it")
    cache.set_defaults(run=_cache)
    completion = commands.add_parser("completion", help='a script for the shell: eval "$(gradtape completion bash)"')
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(run=_completion)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from gradtape.tools import demo

    demo.run(options.output, options.steps, options.seed)
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from gradtape.tools import doctor

    return doctor.diagnose()


def _cache(options: argparse.Namespace) -> int:
    from gradtape import config
    from gradtape.tools.doctor import kept

    directory = config.native_cache_directory()
    if directory is None:
        print("no cache: compiled programs are not kept (GRADTAPE_CACHE names a folder)")
        return 0
    # Everything below the folder is the cache's: half-written files of processes that ended count, too.
    files, size = kept(Path(directory))
    print(f"{directory}: {len(files)} files, {size / 1e6:.1f} MB of at most {config.native_cache_bytes() / 1e6:.0f} MB")
    if options.clear:
        for file in files:
            file.unlink(missing_ok=True)  # another process may have been faster
        print(f"removed {len(files)} files")
    return 0


def _completion(options: argparse.Namespace) -> int:
    from gradtape.tools import completion

    print(completion.script(options.shell, _parser()), end="")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {value}")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
