#!/usr/bin/env python3
"""Write a BEIR folder whose questions hang on an identifier: error codes, lot numbers, IBANs, drug codes.

    python3 scripts/make_identifier_set.py FOLDER

The texts of a kind differ in little but their identifier, so meaning alone can't tell them apart. Questions spell it in
another way than the text where people do. The same folder comes out every time.
"""
import json
import random
import sys
from pathlib import Path

DOCUMENTS = 400
KINDS = ("error", "lot", "iban", "drug")
PLACES = ("the packaging line", "the cold store", "the night shift", "the second warehouse", "the test bench")


def iban(chance):
    """Return an account number in groups of four (check digits are not computed)."""
    digits = "".join(str(chance.randrange(10)) for _ in range(18))
    text = f"DE{chance.randrange(10, 100)}{digits}"
    return " ".join(text[at:at + 4] for at in range(0, len(text), 4))


def identifier(kind, number, chance):
    """Return (as the text spells it, as the question spells it)."""
    if kind == "error":
        return f"ERR_{4000 + number}", chance.choice([f"ERR_{4000 + number}", f"err-{4000 + number}", f"ERR {4000 + number}"])
    if kind == "lot":
        return f"LOT-2024/{number:04}", chance.choice([f"LOT-2024/{number:04}", f"lot 2024/{number:04}"])
    if kind == "iban":
        grouped = iban(chance)
        return grouped, chance.choice([grouped, grouped.replace(" ", "")])
    code = f"N{number % 7:02}BX{number:03}"
    return code, chance.choice([code, code.lower()])


def document(kind, spelled, chance):
    """Return a text around an identifier."""
    place = chance.choice(PLACES)
    return {
        "error": f"The controller of {place} stopped with {spelled}. It was reset by the operator and ran until the end of the shift.",
        "lot": f"{spelled} was put on hold at {place} because a seal was broken. Quality assurance released it after inspection.",
        "iban": f"A transfer to {spelled} was flagged because the payee is new. The customer confirmed it by telephone from {place}.",
        "drug": f"The dose of {spelled} was changed at {place} after the patient reported dizziness. No further event was seen.",
    }[kind]


def question(kind, spelled):
    """Return what somebody asks about it."""
    return {
        "error": f"what was done about {spelled}?",
        "lot": f"why was {spelled} on hold?",
        "iban": f"was the transfer to {spelled} confirmed?",
        "drug": f"why was the dose of {spelled} changed?",
    }[kind]


def main(arguments):
    """Write corpus, queries and judgements."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder, chance = Path(arguments[0]), random.Random(4711)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as corpus, \
            open(folder / "queries.jsonl", "w", encoding="utf-8") as queries, \
            open(folder / "qrels" / "test.tsv", "w", encoding="utf-8") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for number in range(DOCUMENTS):
            kind = KINDS[number % len(KINDS)]
            in_text, in_question = identifier(kind, number, chance)
            text = document(kind, in_text, chance)
            corpus.write(json.dumps({"_id": f"d{number}", "title": "", "text": text}) + "\n")
            if number % 4 == (number // 4) % 4:
                queries.write(json.dumps({"_id": f"q{number}", "text": question(kind, in_question)}) + "\n")
                qrels.write(f"q{number}\td{number}\t1\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
