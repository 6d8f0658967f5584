#!/usr/bin/env python3
"""Prints result files of score.py as the Markdown table of the model card. Standard library only.

    python tools/nano/table.py bf16.json mxfp4.json
"""

import json
import pathlib
import sys


def cell(result):
    if result is None:
        return "-"
    text = f"{result['score']:.3f} [{result['low']:.3f}, {result['high']:.3f}]"
    return text + (f", valid {result['valid']:.3f}" if "valid" in result else "")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    columns, rows = [], {}
    for path in sys.argv[1:]:
        file = json.loads(pathlib.Path(path).read_text())
        for thinking in (True, False):
            results = [r for r in file["results"] if r["thinking"] == thinking]
            if results:
                columns.append(f"{pathlib.Path(path).stem}, thinking {'on' if thinking else 'off'}")
                for r in results:
                    rows.setdefault(r["set"], {"count": r["count"]})[columns[-1]] = r
    print("| set | items | " + " | ".join(columns) + " |")
    print("| --- " * (len(columns) + 2) + "|")
    for name, row in rows.items():
        print(f"| {name} | {row['count']} | " + " | ".join(cell(row.get(c)) for c in columns) + " |")


if __name__ == "__main__":
    main()
