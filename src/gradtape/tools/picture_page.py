"""HTML pages around pictures: one file with style, scripts and data inside, nothing fetched from anywhere.

Data is put into the page as JSON in a script element that browsers do not run; whatever could end that element early is
written as an escape, so no text of the user's becomes markup. Files are written whole or not at all.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from html import escape
from typing import Any

from gradtape.tools.page import asset

SCRIPTS = ("layout.js", "program.js", "scene.js", "details.js", "stage.js", "picture.js")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str, *, styles: Sequence[str], scripts: Sequence[str], class_: str = "") -> str:
    """A complete document. `body` is markup; `styles` and `scripts` are names of assets."""
    css = "".join(f"<style>\n{asset(name)}</style>\n" for name in styles)
    js = "".join(f"<script>\n{asset(name)}</script>\n" for name in scripts)
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n{css}<script>\n{asset('theme.js')}</script>\n</head>\n"
        f'<body class="{escape(class_)}">\n{body}\n{js}</body>\n</html>\n'
    )


def embedded(data: object) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def picture_page(data: dict[str, Any], text: str, title: str) -> str:
    """The page of one picture; `text` is what readers without scripts see."""
    body = (
        '<div id="picture"></div>\n'
        f"<noscript><pre>{escape(text)}</pre></noscript>\n"
        f'<script type="application/json" id="data">{embedded(data | {"title": title})}</script>'
    )
    return page(title, body, styles=("picture.css",), scripts=(*SCRIPTS, "start.js"), class_="whole")


def notebook_frame(html: str, height: int = 560) -> str:
    """A page inside another one, as notebooks show it."""
    style = f"width:100%;height:{height}px;border:1px solid #8884;border-radius:10px"
    return f'<iframe srcdoc="{escape(html, quote=True)}" style="{style}" title="the recorded operations"></iframe>'


def write(path: str | os.PathLike[str], text: str) -> str:
    """Write a file whole or not at all; the answer is its absolute path.

    Raises:
        OSError: with a sentence that says what is wrong with the path.
    """
    target = checked(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".gradtape-", suffix=".html")
    except OSError as error:
        raise type(error)(error.errno, f"cannot write {target}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise type(error)(error.errno, f"cannot write {target}: {error.strerror}") from None
        raise
    return target


def checked(path: str | os.PathLike[str]) -> str:
    """The absolute form of a path a page can be written to.

    Raises:
        OSError: when there is no such folder, the path is a folder, or it may not be written.
        TypeError: for something that is no path.
    """
    if not isinstance(path, (str, os.PathLike)):
        given = f"{path!r} of type {type(path).__name__}"
        if hasattr(path, "dtype"):
            given = "a tensor: say what a picture is about by name, picture(target=y)"
        raise TypeError(f"the path of a page must be a string or a path, got {given}")
    target = os.path.abspath(os.fspath(path))
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise IsADirectoryError(f"cannot write {target}: it is a folder; give the name of a file in it, such as page.html")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {target}: there is no folder {folder}; create it first")
    if not os.access(folder, os.W_OK) or (os.path.exists(target) and not os.access(target, os.W_OK)):
        raise PermissionError(f"cannot write {target}: no permission; choose another place")
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
