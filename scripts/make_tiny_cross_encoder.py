"""Write a cross-encoder of the real architecture with fixed random weights, small enough to be committed.

    .ragbus/venv/bin/python scripts/make_tiny_cross_encoder.py --out tests/fixtures/tiny-cross-encoder

BERT with token types, pooler and a classifier of one label. It means nothing: it shows that pairs are put together and
run as such a model wants them. Expected logits come from bert_numpy.py (float64) and ids from wordpiece.py, so neither
the graph nor the tokenizer library can hide a fault in them.
"""
import argparse
import json
import string
import sys
from pathlib import Path

import numpy as np
import onnx

from bert_numpy import Bert
from pair_fixtures import largest_difference, pair_cases, write_cases
from pair_graph import classifier
from wordpiece import WordPiece

NAME, MAX_TOKENS, SEED = "tiny-cross-encoder", 128, 20
CONFIG = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64,
    "max_position_embeddings": 160, "layer_norm_eps": 1e-12,
}
WORDS = (
    "a above and angle at attack bake balance butter cake document does for high how hour in is it lift measured of only"
    " or pressure price query sheds slender text that the then tunnel two vort what wind wing with ##s ##ing ##dynamics ##ices ##ex aero"
)
MANIFEST = f"""# Random weights: a test of the architecture, not a model. Written by scripts/make_tiny_cross_encoder.py.
id = "{NAME}"
task = "cross-encoder"
dimension = 1
max_tokens = {MAX_TOKENS}
output = "logits"
licence = "none: random numbers"
source = "scripts/make_tiny_cross_encoder.py, seed {SEED}"
batch_invariant = true

[cross_encoder]
activation = "sigmoid"
"""


def vocabulary():
    """Return special tokens, every letter and digit as a word and as a continuation, and some words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    signs = [*string.ascii_lowercase, *string.digits]
    marks = list("[].,;:!?$()-")
    return list(dict.fromkeys([*special, *signs, *(f"##{sign}" for sign in signs), *marks, *WORDS.split()]))


def tokenizer(tokens):
    """Return a BERT tokenizer.json with the pair template of such models."""
    def special(name, kind):
        return {"SpecialToken": {"id": name, "type_id": kind}}

    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    single = [special("[CLS]", 0), first, special("[SEP]", 0)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    names = {name: {"id": name, "ids": [tokens.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": index, "content": name, **flags} for index, name in enumerate(tokens[:5])],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single,
                           "pair": [*single, second, special("[SEP]", 1)], "special_tokens": names},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {name: index for index, name in enumerate(tokens)}},
    }


def random_weights(words):
    """Return weights of the configured sizes, large enough that logits differ from pair to pair."""
    random, width, inner = np.random.default_rng(SEED), CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {"pooler.dense": (width, width), "classifier": (1, width)}
    norms = ["embeddings.LayerNorm"]
    for index in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{index}"
        shapes |= {f"{layer}.attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        shapes |= {f"{layer}.attention.output.dense": (width, width), f"{layer}.intermediate.dense": (inner, width),
                   f"{layer}.output.dense": (width, inner)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    tables = {"word": words, "position": CONFIG["max_position_embeddings"], "token_type": 2}
    weights = {f"embeddings.{name}_embeddings.weight": random.normal(0, 1, (rows, width)) for name, rows in tables.items()}
    for name, shape in shapes.items():
        weights[f"{name}.weight"], weights[f"{name}.bias"] = random.normal(0, 0.3, shape), random.normal(0, 0.1, shape[0])
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = random.normal(1, 0.1, width), random.normal(0, 0.1, width)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def main():
    """Write the folder; return 1 when the graph and the reference differ."""
    parser = argparse.ArgumentParser(description="write a tiny cross-encoder and its expected logits")
    parser.add_argument("--out", type=Path, required=True, help="folder for the four files")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    weights = random_weights(len(tokens))
    (out / "model.toml").write_text(MANIFEST, encoding="utf-8")
    text = json.dumps(tokenizer(tokens), ensure_ascii=False, indent=1)
    (out / "tokenizer.json").write_text(text + "\n", encoding="utf-8")
    model = classifier(weights, CONFIG)
    onnx.checker.check_model(model, full_check=True)
    (out / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    cases = pair_cases(WordPiece(out / "tokenizer.json"), Bert(weights, CONFIG).classify, MAX_TOKENS)
    write_cases(out / "expected.json", {"model": NAME, "task": "cross-encoder", "max_tokens": MAX_TOKENS}, cases)
    worst = largest_difference(out / "model.onnx", cases)
    print(f"{NAME}: largest difference {worst:.2e}")
    return 0 if worst <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
