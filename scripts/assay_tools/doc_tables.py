"""The tables of docs/properties.md, made from what the program itself lists.

usage: python -m assay_tools.doc_tables ASSAY_VERIFY [--write]

exit: 0 the page is true; 1 it is not (or was rewritten, with --write); 2 usage
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "properties.md"


def tables(listed: dict[str, Any]) -> dict[str, list[str]]:
    """Rows by the name of their marker."""
    subjects = listed["subjects"]
    return {
        "properties": [f"| `{p['id']}` | {p['goal']} |" for p in listed["properties"]],
        "subjects": [
            f"| `{s['id']}` | {s['origin']} | {s['summary']} |"
            for s in subjects
            if s["origin"] != "mutant"
        ],
        "mutants": [
            f"| `{s['id']}` | {s['summary']} | `{s['killed_by']}` |"
            for s in subjects
            if s["origin"] == "mutant"
        ],
    }


def with_tables(page: str, rows: dict[str, list[str]]) -> str:
    """The page with the lines between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    for name, lines in rows.items():
        head, begin, rest = page.partition(f"<!-- begin {name} -->\n")
        old, end, tail = rest.partition(f"<!-- end {name} -->")
        if not begin or not end:
            raise ValueError(f"{PAGE.name} has no table '{name}' between its markers")
        titles = old.splitlines()[:2]
        page = head + begin + "\n".join([*titles, *lines]) + "\n" + end + tail
    return page


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    listing = subprocess.run(
        [arguments[0], "--list", "--json"], capture_output=True, text=True, check=True
    )
    page = PAGE.read_text(encoding="utf-8")
    fresh = with_tables(page, tables(json.loads(listing.stdout)))
    if fresh == page:
        print(f"{PAGE.name}: its tables are what the program lists")
        return 0
    if "--write" in arguments:
        PAGE.write_text(fresh, encoding="utf-8")
    print(f"{PAGE.name}: its tables differ from the program; rerun with --write and commit")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
