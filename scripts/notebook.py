"""Run the example notebook, and write what it prints and draws into it.

Cells are run one after the other in this process, as Jupyter would: what is printed, the value
of a last line that is an expression, and the figures that are open at the end of a cell.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook" / "patterns.ipynb"


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run all cells of code; give the notebook with their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for cell in notebook["cells"]:
        ran = cell
        if cell["cell_type"] == "code":
            outputs = run_cell("".join(cell["source"]), names)
            ran = cell | {"outputs": outputs, "execution_count": None}
        cells.append(ran)
    return notebook | {"cells": cells}


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell among names; give its outputs."""
    module = ast.parse(source)
    last = module.body[-1] if module.body else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            module.body.pop()
        exec(compile(module, "<cell>", "exec"), names)  # noqa: S102  # it is our notebook
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
    outputs = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None and not source.rstrip().endswith(";"):
        outputs.append(
            _data("execute_result", "text/plain", repr(value)) | {"execution_count": None}
        )
    return outputs + [_data("display_data", "image/png", image) for image in _figures()]


def _data(output: str, form: str, text: str) -> dict[str, Any]:
    return {
        "output_type": output,
        "data": {form: text.splitlines(keepends=True)},
        "metadata": {},
    }


def _figures() -> list[str]:
    """Draw and close the figures that are open."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  # the backend is chosen first

    images = []
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=80, metadata={"Software": None})
        images.append(base64.b64encode(file.getvalue()).decode() + "\n")
    plt.close("all")
    return images


def main() -> None:
    """Run the notebook and write it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # as in an activated environment
    ran = run_notebook(json.loads(NOTEBOOK.read_text("utf-8")))
    NOTEBOOK.write_text(json.dumps(ran, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"wrote {NOTEBOOK.name}")


mpl.use("agg")
if __name__ == "__main__":
    sys.exit(main())
