"""Write tests/fixtures/trec_eval.json: random judgements and runs with the values that trec_eval gives them.

    python3 -m venv venv && venv/bin/pip install pytrec-eval-terrier==0.5.11 numpy
    venv/bin/python scripts/make_trec_eval_fixture.py --out tests/fixtures/trec_eval.json

Not part of the setup: the fixture is committed. The data has ties, scores that are equal as 32-bit
numbers only, unjudged documents, grades from -1 to 4, and queries without a result.

trec_eval has no cut for recip_rank and no judged measure. The first is taken of the run cut by
trec_eval's own order, the second is its P_k with every judged document called relevant, times k by
the number of documents that were there.
"""
import argparse
import json
import random

import numpy as np
import pytrec_eval

SEED = 20261129
QUERIES = 24
POOL = [f"d{n:03}" for n in range(400)]
CUTS = (3, 10, 100)


def make_judgements(rng):
    judgements = {}
    for number in range(QUERIES):
        judged = rng.sample(POOL, rng.randint(3, 60))
        grades = rng.choices([-1, 0, 1, 2, 3, 4], weights=[1, 6, 4, 3, 2, 1], k=len(judged))
        if max(grades) < 1:
            grades[0] = 1
        judgements[f"q{number}"] = dict(zip(judged, grades))
    return judgements


def make_run(rng, judgements):
    run = {}
    for query, grades in judgements.items():
        if rng.random() < 0.1:
            continue
        size = rng.choice([2, 7, 40, 150])
        documents = set(rng.sample(POOL, size)) | set(rng.sample(sorted(grades), len(grades) // 2))
        scores = {}
        for document in sorted(documents):
            score = grades.get(document, 0) + rng.gauss(0, 2)
            kind = rng.random()
            if kind < 0.3:
                score = float(round(score))
            elif kind < 0.4:
                score = round(score) + 1e-9
            scores[document] = score
        run[query] = scores
    return run


def in_trec_order(scores):
    """Documents as trec_eval orders them: 32-bit score descending, then id descending."""
    return sorted(scores, key=lambda d: (np.float32(scores[d]), d), reverse=True)


def evaluate(judgements, run, measures, level=1):
    evaluator = pytrec_eval.RelevanceEvaluator(judgements, measures, relevance_level=level)
    return evaluator.evaluate(run)


def expect(judgements, run, level):
    cuts = ",".join(map(str, CUTS))
    values = evaluate(judgements, run, {f"ndcg_cut.{cuts}", f"recall.{cuts}"}, level)
    judged = {q: {d: 1 for d in grades} for q, grades in judgements.items()}
    precision = evaluate(judged, run, {f"P.{cuts}"})
    expected = {}
    for query, scores in run.items():
        row = {}
        for k in CUTS:
            kept = {d: scores[d] for d in in_trec_order(scores)[:k]}
            cut = evaluate({query: judgements[query]}, {query: kept}, {"recip_rank"}, level)
            row[f"nDCG@{k}"] = values[query][f"ndcg_cut_{k}"]
            row[f"Recall@{k}"] = values[query][f"recall_{k}"]
            row[f"MRR@{k}"] = cut[query]["recip_rank"]
            row[f"judged@{k}"] = precision[query][f"P_{k}"] * k / min(k, len(scores))
        expected[query] = row
    return expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    rng = random.Random(SEED)
    judgements = make_judgements(rng)
    runs = []
    for level in (1, 1, 2):
        run = make_run(rng, judgements)
        runs.append({"relevantFrom": level, "run": run, "expected": expect(judgements, run, level)})
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"judgements": judgements, "runs": runs}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
