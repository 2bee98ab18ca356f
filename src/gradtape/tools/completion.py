"""`gradtape completion SHELL`: a script for bash, zsh or fish that completes subcommands, their options, and file names.

Written from the parser itself, so that it cannot drift: `eval "$(gradtape completion bash)"`.
"""

from __future__ import annotations

import argparse


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The text for one shell."""
    options = {name: _options(command) for name, command in subcommands(parser).items()}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](options)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the subcommands by name."""
    # argparse has no public way to ask a parser for its subcommands.
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def _bash(options: dict[str, list[str]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(given)}" ;;' for name, given in options.items())
    return f"""_gradtape() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(options)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$current"))
  else COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -F _gradtape gradtape
"""


def _zsh(options: dict[str, list[str]]) -> str:
    cases = "\n".join(f"    {name}) compadd -- {' '.join(given)} ;;" for name, given in options.items())
    return f"""#compdef gradtape
_gradtape() {{
  if (( CURRENT == 2 )); then compadd -- {" ".join(options)} --help --version; return; fi
  if [[ "$words[CURRENT]" != -* ]]; then _files; return; fi
  case "$words[2]" in
{cases}
  esac
}}
compdef _gradtape gradtape
"""


def _fish(options: dict[str, list[str]]) -> str:
    lines = [f"complete -c gradtape -n __fish_use_subcommand -f -a '{' '.join(options)}'"]
    for name, given in options.items():
        lines += [f"complete -c gradtape -n '__fish_seen_subcommand_from {name}' -l {option[2:]}" for option in given]
    return "\n".join(lines) + "\n"
