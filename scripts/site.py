"""The parts of the documentation site that are not in docs/: a hook of MkDocs.

Pages are written for a checkout: links go from file to file. On the site the front page, the
pages at the root and those of the examples are pages among others, the notebook is one too,
and a link to a file of the code is its name.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[1]
NOTEBOOK = "examples/notebook/patterns.ipynb"
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples/index.md",
    NOTEBOOK: "examples/notebook.md",
    **{
        f"examples/{name}/README.md": f"examples/{name}.md"
        for name in ("cluster", "fraud", "kafka", "overload", "sensors")
    },
}
"""Files of the repository that are pages of the site, besides those of docs/."""
STYLE = """\
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset pre > code { font-size: .66rem; }
.md-typeset .code-file { border-bottom: 1px dotted; cursor: help; }
"""
_LINK = re.compile(
    r"(?<!\\)(?P<image>!?)\[(?P<text>(?:[^\[\]]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)"
)
_CODE = re.compile(
    r"(^```.*?^```$|^(?: {4}|\t)[^\n]*$|``[^`].*?``|`[^`\n]*`(?!\]))", re.DOTALL | re.MULTILINE
)
_EXTERNAL = re.compile(r"[a-z]+:|#")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name headings as links of a checkout do."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere, and the style."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        content = notebook_page(json.loads(text)) if source == NOTEBOOK else text
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "site.css", content=STYLE))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Turn links between files into links between pages; lists are nested by four blanks."""
    return "".join(
        part if number % 2 else _with_links(part, page.file.src_uri)
        for number, part in enumerate(_CODE.split(markdown))
    )


def _with_links(text: str, page: str) -> str:
    nested = re.sub(r"^  (?=\S)", "    ", text, flags=re.MULTILINE)
    return _LINK.sub(lambda link: site_link(link, page), nested)


def site_link(link: re.Match[str], page: str) -> str:
    """Write a link as it is on the site; one to a file of the code shows its name."""
    if _EXTERNAL.match(link["target"]):
        return link[0]
    path, _, anchor = link["target"].partition("#")
    source = next((s for s, p in PAGES.items() if p == page), f"docs/{page}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (ROOT / target).exists():
        return link[0]  # MkDocs says that it leads nowhere
    place = _page_of(target)
    if place is None:
        return f'<span class="code-file" title="{target}">{link["text"]}</span>'
    relative = posixpath.relpath(place, posixpath.dirname(page) or ".")
    return f"{link['image']}[{link['text']}]({relative}{'#' * bool(anchor)}{anchor})"


def _page_of(path: str) -> str | None:
    """Find the page or the picture that a file of the repository is on the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return PAGES.get(path) or PAGES.get(f"{path}/README.md")


def notebook_page(notebook: dict[str, Any]) -> str:
    """Write a notebook as a page: text, code, and what it printed or drew."""
    return "\n\n".join(part for cell in notebook["cells"] for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        shown = output.get("data", {"text/plain": output.get("text", [])})
        if "image/png" in shown:
            yield f"![](data:image/png;base64,{''.join(shown['image/png']).strip()})"
        else:
            yield f"```text\n{''.join(shown['text/plain']).rstrip()}\n```"
