"""`python -m docs._ext.build`: the site in `_site/<version>/`, warnings as errors; beside it the versions and a first page.

Nothing is fetched while building or reading: fonts and scripts are those of the installed theme. A version built before
stays, and is in the menu.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_site"
FIRST = """<!doctype html><meta charset="utf-8"><title>gradtape</title>
<meta http-equiv="refresh" content="0; url={0}/index.html"><a href="{0}/index.html">gradtape {0}</a>
"""


def main() -> int:
    """Build, then write what all versions share; the exit status is the generator's."""
    from gradtape.config import VERSION

    status = build_main(
        ["-W", "--keep-going", "-q", "-b", "html", "-d", str(SITE / ".doctrees"), str(ROOT / "docs"), str(SITE / VERSION)]
    )
    if status == 0:
        versions = sorted((p.name for p in SITE.iterdir() if (p / "index.html").exists()), key=_order, reverse=True)
        (SITE / "versions.js").write_text(f"window.GRADTAPE_VERSIONS = {json.dumps(versions)};\n", encoding="utf-8")
        (SITE / "index.html").write_text(FIRST.format(versions[0]), encoding="utf-8")
        print(f"the site is there: {SITE / 'index.html'}")
    return status


def _order(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in name.split(".")]


if __name__ == "__main__":
    sys.exit(main())
