"""An independent BERT forward pass in numpy float64, the reference the ONNX graphs are held to."""
import math

import numpy as np

ERF = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x):
    """Exact GELU."""
    return 0.5 * x * (1.0 + ERF(x / math.sqrt(2.0)))


class Bert:
    """One text at a time, no padding: nothing here can get masking wrong."""

    def __init__(self, weights, config):
        """Keep the weights as float64, whichever way the checkpoint spells its names."""
        self.w = {name.removeprefix("bert."): value.astype(np.float64) for name, value in weights.items()}
        self.heads, self.layers = config["num_attention_heads"], config["num_hidden_layers"]
        self.eps = config["layer_norm_eps"]

    def linear(self, x, name):
        """Dense layer."""
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        """Layer normalisation, either naming of its parts."""
        gamma = self.w.get(name + ".weight", self.w.get(name + ".gamma"))
        beta = self.w.get(name + ".bias", self.w.get(name + ".beta"))
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.eps) * gamma + beta

    def attention(self, x, prefix):
        """Self-attention, one head after the other."""
        q, k, v = (self.linear(x, f"{prefix}.self.{part}") for part in ("query", "key", "value"))
        size = x.shape[1] // self.heads
        parts = []
        for head in range(self.heads):
            span = slice(head * size, (head + 1) * size)
            scores = q[:, span] @ k[:, span].T / math.sqrt(size)
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            parts.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, span])
        return self.linear(np.concatenate(parts, axis=1), f"{prefix}.output.dense")

    def encode(self, ids, types=0):
        """Return the hidden states of one unpadded sequence, with a token type for all or for each."""
        x = self.w["embeddings.word_embeddings.weight"][ids]
        x = x + self.w["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + self.w["embeddings.token_type_embeddings.weight"][types]
        x = self.norm(x, "embeddings.LayerNorm")
        for index in range(self.layers):
            p = f"encoder.layer.{index}"
            x = self.norm(x + self.attention(x, f"{p}.attention"), f"{p}.attention.output.LayerNorm")
            inner = gelu(self.linear(x, f"{p}.intermediate.dense"))
            x = self.norm(x + self.linear(inner, f"{p}.output.dense"), f"{p}.output.LayerNorm")
        return x

    def dense(self, ids):
        """Return the normalised mean embedding."""
        mean = self.encode(ids).mean(axis=0)
        return mean / np.linalg.norm(mean)

    def sparse(self, ids):
        """Return SPLADE weights over the vocabulary, activation first and the max after it."""
        x = gelu(self.linear(self.encode(ids), "cls.predictions.transform.dense"))
        x = self.norm(x, "cls.predictions.transform.LayerNorm")
        logits = x @ self.w["embeddings.word_embeddings.weight"].T + self.w["cls.predictions.bias"]
        return np.log1p(np.maximum(logits, 0.0)).max(axis=0)

    def classify(self, ids, types):
        """Return the logit of a cross-encoder: pooler (dense, tanh) on the first token, then the classifier."""
        first = self.encode(ids, types)[0]
        return float(self.linear(np.tanh(self.linear(first, "pooler.dense")), "classifier")[0])
