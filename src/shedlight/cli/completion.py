"""`shedlight completion`: the script by which a shell completes commands and options."""

from enum import Enum
from typing import Annotated

import typer
from typer.completion import (  # type: ignore[attr-defined]  # typer has no public names for them
    completion_init,
    get_completion_script,
)

completion_init()  # registers the completion classes of the shells


class Shell(Enum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)],
) -> None:
    """Print the script by which a shell completes commands, options and values.

    \b
    bash:  echo 'eval "$(shedlight completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(shedlight completion zsh)"' >> ~/.zshrc
    fish:  shedlight completion fish > ~/.config/fish/completions/shedlight.fish
    """  # noqa: D301  # as in main.py
    name, variable = "shedlight", "_SHEDLIGHT_COMPLETE"
    print(get_completion_script(prog_name=name, complete_var=variable, shell=shell.value))
