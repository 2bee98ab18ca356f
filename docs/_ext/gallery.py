"""The gallery: a page for each program in `examples/gallery`, made from its docstring, its picture and its text.

`python -m docs._ext.gallery` (`make pictures`) runs all programs and draws their pictures anew; `write` makes the pages when
the site is built.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "gallery" / "pictures"
PROGRAMS = sorted(path for path in (ROOT / "examples" / "gallery").glob("*.py") if not path.name.startswith("_"))


def words(program: Path) -> tuple[str, str]:
    """Title and text of a program: the first line of its docstring and the rest."""
    title, _, text = (ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or "").partition("\n\n")
    return title, text


def page(program: Path) -> str:
    title, text = words(program)
    return f"""# {title}

{text}

![{title}](../pictures/{program.stem}.png)

```
python examples/gallery/{program.name} --picture {program.stem}.png
```

```{{literalinclude}} ../../../examples/gallery/{program.name}
:language: python
:start-at: from __future__
```
"""


def index() -> str:
    """The cards of the first page."""
    cards = []
    for program in PROGRAMS:
        title, text = words(program)
        link = f":link: programs/{program.stem}\n:link-type: doc\n:img-top: pictures/{program.stem}.png"
        cards.append(f":::{{grid-item-card}} {title}\n{link}\n")
        cards.append(f"{' '.join(text.split()).split('. ')[0].rstrip('.')}.\n:::\n")
    return "::::{grid} 1 2 2 3\n:gutter: 3\n\n" + "\n".join(cards) + "::::\n"


def write(folder: Path) -> None:
    """One page per program."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        path = folder / f"{program.stem}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != page(program):
            path.write_text(page(program), encoding="utf-8")
    for stale in folder.glob("*.md"):
        if stale.stem not in {program.stem for program in PROGRAMS}:
            stale.unlink()


def main() -> None:
    """Run everything and draw it."""
    for program in PROGRAMS:
        print(program.stem, flush=True)
        command = [sys.executable, str(program), "--picture", str(PICTURES / f"{program.stem}.png")]
        subprocess.run(command, check=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
