"""Build ONNX graphs of pairs: `[CLS] a [SEP] b [SEP]` with token types 0 and 1 in, one logit [batch, 1] out.

`stand_in` is made of a bi-encoder's weights, for tests and demonstrations: it has a cross-encoder's inputs and output,
but its segments never see each other, so it cannot improve on first-stage ranking. `classifier` is the real thing:
BERT, pooler and a classifier of one label.
"""
import numpy as np
from onnx import TensorProto

from bert_graph import Graph, dense_head, encoder, finish

# The stand-in's logit is SCALE * (cosine - CENTRE): 0 between the cosines of related and of unrelated texts.
SCALE = 12.0
CENTRE = 0.35


def stand_in(weights, config):
    """Return the model that scores a pair by the cosine of its segments, each encoded as a text of its own."""
    g = Graph(weights)
    axis = g.const("sequence_axis", [1], np.int64)
    one = g.const("one_token", 1, np.int64)
    second = g.op("Mul", "token_type_ids", "attention_mask")
    end = g.op("ReduceSum", g.op("Sub", "attention_mask", second), axis, keepdims=1)
    # The second segment borrows the first one's [CLS], so it is one token longer than its own.
    borrowed = g.op("Add", g.op("ReduceSum", second, axis, keepdims=1), one)
    left = pooled(g, config, end, g.const("no_shift", 0, np.int64))
    right = pooled(g, config, borrowed, g.op("Sub", end, one))
    cosine = g.op("ReduceSum", g.op("Mul", left, right), axis, keepdims=1)
    logit = g.op("Mul", g.op("Sub", cosine, g.const("centre", CENTRE)), g.const("scale", SCALE))
    return finish(g, "pair", logit, "logits", 1)


def pooled(g, config, lengths, shift):
    """Return the embedding of each row's [CLS] and the `lengths - 1` tokens that follow it after skipping `shift`.

    Only as wide as the longest segment: the first segments, mostly short questions, are not padded to the width of the
    second ones, which halves the work.
    """
    zero, one = g.const("no_shift", 0, np.int64), g.const("one_token", 1, np.int64)
    width = g.op("ReduceMax", lengths, keepdims=0)
    # Constants have one axis, and a range's ends have none.
    steps = g.op("Range", g.op("Squeeze", zero), width, g.op("Squeeze", one))
    columns = g.op("Unsqueeze", steps, g.const("batch_axis", [0], np.int64))
    # Column 0 is [CLS] in both segments; beyond a row's own end any index does, as the mask hides it.
    moved = g.op("Add", columns, g.op("Mul", g.op("Min", columns, one), shift))
    last = g.op("Sub", g.op("Shape", "input_ids", start=1, end=2), one)
    shape = g.op("Concat", g.op("Shape", "input_ids", start=0, end=1), g.const("any_width", [1], np.int64), axis=0)
    indices = g.op("Expand", g.op("Min", moved, last), shape)
    ids = g.op("GatherElements", "input_ids", indices, axis=1)
    mask = g.op("Cast", g.op("Less", columns, lengths), to=TensorProto.INT64)
    # Positions restart by themselves: the encoder counts them from the first column.
    x, mask, _ = encoder(g, config, ids, mask, g.const("first_type", [[0]], np.int64))
    return dense_head(g, x, mask)


def classifier(weights, config):
    """Return a cross-encoder: the classifier of one label over tanh of the dense layer on [CLS]."""
    g = Graph(weights)
    x, _, _ = encoder(g, config)
    tokens = g.const("sequence_axis", [1], np.int64)
    first = g.op("Squeeze", g.op("Gather", x, g.const("first_token", [0], np.int64), axis=1), tokens)
    pooled_output = g.op("Tanh", g.linear(first, "pooler.dense"))
    return finish(g, "cross-encoder", g.linear(pooled_output, "classifier"), "logits", 1)
