"""Pairs whose logits are computed without ONNX, and a check of a graph against them."""
import json

import numpy as np

LONG = "A slender wing at a high angle of attack sheds two vortices that lower the pressure above it. "
PAIRS = {
    "related": ("How is lift measured?", "The lift of a wing is measured in a wind tunnel with a balance."),
    "unrelated": ("How is lift measured?", "Add the butter and the sugar, then bake the cake for an hour."),
    "same": ("aerodynamics", "aerodynamics"),
    "long-document": ("vortex lift", LONG * 30),
    "long-query": (LONG * 2, LONG * 9),
    "empty-document": ("vortex lift", ""),
    "empty-query": ("", "vortices above a wing"),
    "both-empty": ("", " \n "),
    "accents": ("crème brûlée", "Crème brûlée ist eine Süßspeise; naïve façade, 東京"),
    "spelled-specials": ("what does [SEP] do", "A text may spell [CLS], [SEP], [PAD] or [MASK] [SEP] and is only text."),
    "numbers": ("price of v2.15.1", "v2.15.1 costs $1,299.99 (−3.5 %)"),
}


def pair_cases(tokenizer, score, limit):
    """Return one case for each pair: ids, token types, document tokens cut away and `score(ids, types)`."""
    cases = []
    for name, (query, document) in PAIRS.items():
        ids, types, cut = tokenizer.encode_pair(query, document, limit)
        cases.append({
            "name": name, "query": query, "document": document, "ids": ids, "second": types.index(1),
            "truncated_tokens": cut, "logit": float(f"{score(ids, types):.9g}"),
        })
    return cases


def write_cases(path, head, cases):
    """Write a fixture: a head of a few keys, then one case a line."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    path.write_text(f'{json.dumps(head)[:-1]}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"wrote {path} ({path.stat().st_size} bytes, {len(cases)} cases)")


def largest_difference(graph, cases):
    """Return how far the graph's logits are from the cases' at most: alone, padded further, and in one padded batch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    want = np.array([[case["logit"]] for case in cases])
    longest = max(len(case["ids"]) for case in cases)
    alone = np.concatenate([run_padded(session, [case], len(case["ids"])) for case in cases])
    further = np.concatenate([run_padded(session, [case], len(case["ids"]) + 17) for case in cases])
    batch = run_padded(session, cases, longest)
    # A number that isn't finite stays one here, and fails any comparison with a tolerance.
    return float(np.max(np.abs(np.stack([alone, further, batch]) - want)))


def run_padded(session, cases, width):
    """Run cases as one batch padded to `width`, with noise ids and token types under the mask."""
    ids, types = np.full((len(cases), width), 9, dtype=np.int64), np.ones((len(cases), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, case in enumerate(cases):
        length = len(case["ids"])
        ids[row, :length], mask[row, :length], types[row, : case["second"]] = case["ids"], 1, 0
    return session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": types})[0]
