#!/usr/bin/env python3
"""Write a BEIR folder of known items from a folder of text files, to calibrate a cross-encoder with.

    python3 scripts/make_known_items.py TEXTS FOLDER

A file's first line is a question that its own body answers: a relevant pair. Bodies of ten files drawn from the others are
judged irrelevant: pairs nobody needs to read to judge, if pages are about different things. The draw is the same every time.
"""
import json
import random
import sys
from pathlib import Path

OTHERS = 10
LONGEST = 900


def read(folder):
    """Return (id, title, body) of every text that has both."""
    found = []
    for path in sorted(Path(folder).rglob("*.txt")):
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        body = " ".join(lines[1:])[:LONGEST]
        if len(lines) > 1 and len(body) > 200:
            found.append((path.stem, lines[0].lstrip("0123456789. "), body))
    return found


def main(arguments):
    """Write corpus, queries and judgements."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    texts, folder, chance = read(arguments[0]), Path(arguments[1]), random.Random(4711)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as corpus, \
            open(folder / "queries.jsonl", "w", encoding="utf-8") as queries, \
            open(folder / "qrels" / "test.tsv", "w", encoding="utf-8") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for name, title, body in texts:
            corpus.write(json.dumps({"_id": name, "title": "", "text": body}) + "\n")
            queries.write(json.dumps({"_id": f"q-{name}", "text": title}) + "\n")
            qrels.write(f"q-{name}\t{name}\t1\n")
            others = [other for other, _, _ in texts if other != name]
            for other in chance.sample(others, OTHERS):
                qrels.write(f"q-{name}\t{other}\t0\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
