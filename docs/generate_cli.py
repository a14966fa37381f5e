"""Write docs/cli.md, the reference of the command line, from the commands themselves.

    python docs/generate_cli.py

A test fails when the file and the commands differ.
"""

from __future__ import annotations

from pathlib import Path

import typer

from gapmf.cli import app

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# The command line

Made by `docs/generate_cli.py`: do not edit. Every command exits with 0, or with one line on
standard error and another code: 1 for what cannot be done, 2 for a wrong call, 130 after Ctrl-C.
"""


def reference() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    return HEAD + "".join(_command(name, group.commands[name]) for name in group.commands)


def _command(name: str, command) -> str:
    about, _, example = " ".join(command.help.split()).partition("Example: ")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    names = " ".join(p.metavar or p.name.upper() for p in arguments)
    lines = ["", f"## `gapmf {name}{' ' + names if names else ''}`", "", about.strip(), ""]
    if example:
        lines += ["```sh", example.strip(), "```", ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| `{p.metavar}` | {p.help} |" for p in arguments]
    lines += [f"| {_names(p)} | {p.help}{_default(p)} |" for p in options]
    return "\n".join(lines) + "\n"


def _names(option) -> str:
    return ", ".join(f"`{name}`" for name in option.opts)


def _default(option) -> str:
    if option.required:
        return " Required."
    if option.is_flag or option.default is None:
        return ""
    return f" [{option.default}]"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
