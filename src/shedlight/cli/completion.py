"""`shedlight completion`: the script by which a shell completes commands and options."""

from typing import Annotated, Literal

import typer
from typer.completion import (  # type: ignore[attr-defined]  # typer has no public names for them
    completion_init,
    get_completion_script,
)

completion_init()  # registers the completion classes of the shells


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.", show_default=False)
    ],
) -> None:
    """Print the script by which a shell completes commands, options and values.

    \b
    bash:  echo 'eval "$(shedlight completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(shedlight completion zsh)"' >> ~/.zshrc
    fish:  shedlight completion fish > ~/.config/fish/completions/shedlight.fish
    """  # noqa: D301  # as in main.py
    name, variable = "shedlight", "_SHEDLIGHT_COMPLETE"
    print(get_completion_script(prog_name=name, complete_var=variable, shell=shell))
