"""`shedlight completion`: what a shell needs to complete verbs, options and values."""

from enum import Enum
from typing import Annotated

import typer
from typer.completion import (  # type: ignore[attr-defined]  # they are there on purpose
    completion_init,
    get_completion_script,
)

completion_init()  # so that the shell is answered when it asks


class Shell(Enum):
    """Which shell is to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)],
) -> None:
    """Print a script that makes a shell complete verbs, options and values.

    \b
    bash:  echo 'eval "$(shedlight completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(shedlight completion zsh)"' >> ~/.zshrc
    fish:  shedlight completion fish > ~/.config/fish/completions/shedlight.fish
    """  # noqa: D301  # as in cli.py
    name, variable = "shedlight", "_SHEDLIGHT_COMPLETE"
    print(get_completion_script(prog_name=name, complete_var=variable, shell=shell.value))
