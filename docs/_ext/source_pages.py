"""Files of the repository as pages of the site, so that it needs no host: those that a page links to, with line numbers.

A link that leaves `docs/` becomes one to `_source/<file>.html`; a folder becomes a list of its files. Markdown files
outside `docs/` that are pages of the site (architecture, changelog) are linked as those pages.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
INCLUDE = re.compile(r"```\{include\} (\S+)\n```")
# files of the root that have a page of their own on the site
PAGES = {
    "ARCHITECTURE.md": "internals/architecture", "CONTRIBUTING.md": "internals/contributing", "CHANGELOG.md": "changelog",
    "SUPPORT.md": "support", "SECURITY.md": "security",
    "README.md": "index", "benchmarks/README.md": "internals/benchmarks_code",
}  # fmt: skip


def rewritten(text: str, home: str, page: str, wanted: set[str]) -> str:
    """Text whose links out of `docs/` go to rendered files; they are relative to `home`, and the text is shown as `page`."""
    up = "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        path, _, fragment = target.partition("#")
        file = posixpath.normpath(posixpath.join(home, path))
        if file.startswith("docs/"):
            if home.startswith("docs"):
                return match.group(0)
            return (
                f"[{words}]({posixpath.relpath(file, posixpath.dirname('docs/' + page))}{'#' + fragment if fragment else ''})"
            )
        if file in PAGES:
            return f"[{words}]({posixpath.relpath(PAGES[file] + '.md', posixpath.dirname(page) or '.')})"
        if not (ROOT / file).exists():
            return match.group(0)  # the generator will complain
        wanted.add(file)
        anchor = f"#{fragment}" if fragment else ""
        return f'<a class="source" href="{up}_source/{file}.html{anchor}">{_inline(words)}</a>'

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 and "{py:" not in part else LINK.sub(link, part) for i, part in enumerate(parts))


def _inline(words: str) -> str:
    return re.sub(r"`([^`]*)`", lambda m: f"<code>{html.escape(m.group(1))}</code>", words)


def _body(file: str) -> str:
    path = ROOT / file
    if path.is_dir():
        names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir() if not p.name.startswith(("_", ".")))
        return f"<h1>{file}</h1><ul>" + "".join(f"<li><code>{html.escape(n)}</code></li>" for n in names) + "</ul>"
    text = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    shown = highlight(
        text, lexer, HtmlFormatter(linenos="inline", anchorlinenos=True, lineanchors="L", cssclass="highlight source-page")
    )
    shown = re.sub(r'(id|name|href)="(#?)L-(\d+)"', r'\1="\2L\3"', shown)
    return f"<h1>{html.escape(file)}</h1>{shown}"


def collect(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all files that were linked."""
    for file in sorted(app.env.gradtape_sources):
        yield f"_source/{file}", {"title": file, "body": _body(file), "sourcename": "", "parents": []}, "page.html"


def _table(app: Any) -> set[str]:
    if not hasattr(app.env, "gradtape_sources"):
        app.env.gradtape_sources = set()
    found: set[str] = app.env.gradtape_sources
    return found


def on_source(app: Any, page: str, content: list[str]) -> None:
    """A page as the generator gets it: a file of the repository in the place of its one `include`, links rewritten."""
    home = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page)))
    if included := INCLUDE.fullmatch(content[0].strip()):
        file = posixpath.normpath(posixpath.join(home, included.group(1)))
        app.env.note_dependency(ROOT / file)
        home, content[0] = posixpath.dirname(file), (ROOT / file).read_text(encoding="utf-8")
    content[0] = rewritten(content[0], home, page, _table(app))
