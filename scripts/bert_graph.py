"""Build ONNX graphs (opset 17) of a BERT encoder with a dense or a sparse head; pair_graph.py has those of pairs.

The graphs hold only weights copied or transposed from the safetensors file, and names come
from a counter, so the same weights give the same bytes on any machine.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
# Added to the score of a masked position. Large enough that its softmax is exactly 0 in fp32,
# small enough that a row whose every position is masked stays finite.
MASKED = -1.0e9


class Graph:
    """Collects nodes and constants, and names them by counting."""

    def __init__(self, weights):
        """Start an empty graph over a dictionary of weights."""
        self.weights = weights
        self.nodes = []
        self.constants = {}

    def op(self, kind, *inputs, **attributes):
        """Add a node and return the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def const(self, name, value, dtype=np.float32):
        """Add a constant once and return its name."""
        if name not in self.constants:
            array = np.ascontiguousarray(np.asarray(value, dtype=dtype))
            self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def weight(self, name, transposed=False):
        """Add a weight of the checkpoint as a constant, transposed for a MatMul if asked."""
        value = self.weights[name]
        return self.const(name, value.T if transposed else value)

    def linear(self, x, name):
        """Apply a dense layer of the checkpoint (weight stored as [out, in])."""
        product = self.op("MatMul", x, self.weight(f"{name}.weight", transposed=True))
        return self.op("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x, name):
        """Apply a layer normalisation of the checkpoint."""
        scale, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)

    def gelu(self, x):
        """Apply GELU in its exact form, x / 2 * (1 + erf(x / sqrt 2))."""
        scaled = self.op("Div", x, self.const("sqrt_two", np.sqrt(2.0)))
        gate = self.op("Add", self.op("Erf", scaled), self.const("one", 1.0))
        return self.op("Mul", self.op("Mul", x, gate), self.const("half", 0.5))


def embed(g, ids, types):
    """Return the sum of word, position and token type embeddings, normalised."""
    length = g.op("Shape", ids, start=1, end=2)
    zero, axis = g.const("slice_start", [0], np.int64), g.const("slice_axis", [0], np.int64)
    positions = g.op("Slice", g.weight("embeddings.position_embeddings.weight"), zero, length, axis)
    words = g.op("Gather", g.weight("embeddings.word_embeddings.weight"), ids, axis=0)
    types = g.op("Gather", g.weight("embeddings.token_type_embeddings.weight"), types, axis=0)
    total = g.op("Add", g.op("Add", words, types), positions)
    return g.norm(total, "embeddings.LayerNorm")


def heads(g, x, width, count, order):
    """Split [batch, seq, width] into [batch, heads, seq, size], or its last two axes swapped."""
    shape = g.const("split_heads", [0, 0, count, width // count], np.int64)
    return g.op("Transpose", g.op("Reshape", x, shape), perm=order)


def layer(g, x, bias, prefix, config):
    """Return one encoder layer's output: self-attention, then the feed-forward part."""
    width, count = config["hidden_size"], config["num_attention_heads"]
    self_prefix = f"{prefix}.attention.self"
    query = heads(g, g.linear(x, f"{self_prefix}.query"), width, count, [0, 2, 1, 3])
    key = heads(g, g.linear(x, f"{self_prefix}.key"), width, count, [0, 2, 3, 1])
    value = heads(g, g.linear(x, f"{self_prefix}.value"), width, count, [0, 2, 1, 3])
    root = g.const("head_root", np.sqrt(width / count))
    scores = g.op("Add", g.op("Div", g.op("MatMul", query, key), root), bias)
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
    shape = g.const("join_heads", [0, 0, width], np.int64)
    joined = g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), shape)
    attended = g.linear(joined, f"{prefix}.attention.output.dense")
    x = g.norm(g.op("Add", attended, x), f"{prefix}.attention.output.LayerNorm")
    inner = g.gelu(g.linear(x, f"{prefix}.intermediate.dense"))
    outer = g.linear(inner, f"{prefix}.output.dense")
    return g.norm(g.op("Add", outer, x), f"{prefix}.output.LayerNorm")


def encoder(g, config, ids="input_ids", mask="attention_mask", types="token_type_ids"):
    """Return (hidden states, float mask [batch, seq], its complement); the graph's own inputs unless told otherwise."""
    mask = g.op("Cast", mask, to=TensorProto.FLOAT)
    hole = g.op("Sub", g.const("one", 1.0), mask)
    spread = g.op("Unsqueeze", hole, g.const("bias_axes", [1, 2], np.int64))
    bias = g.op("Mul", spread, g.const("masked", MASKED))
    x = embed(g, ids, types)
    for index in range(config["num_hidden_layers"]):
        x = layer(g, x, bias, f"encoder.layer.{index}", config)
    return x, mask, hole


def dense_head(g, x, mask):
    """Return the L2-normalised mean over the unmasked positions."""
    rows = g.const("sequence_axis", [1], np.int64)
    weights = g.op("Unsqueeze", mask, g.const("last_axis", [2], np.int64))
    total = g.op("ReduceSum", g.op("Mul", x, weights), rows, keepdims=0)
    count = g.op("Max", g.op("ReduceSum", mask, rows, keepdims=1), g.const("tiny", 1e-9))
    mean = g.op("Div", total, count)
    length = g.op("Max", g.op("ReduceL2", mean, axes=[1], keepdims=1), g.const("tiny", 1e-9))
    return g.op("Div", mean, length)


def sparse_head(g, x, hole):
    """Return log(1 + relu(max over the unmasked positions of the vocabulary logits))."""
    x = g.gelu(g.linear(x, "cls.predictions.transform.dense"))
    x = g.norm(x, "cls.predictions.transform.LayerNorm")
    # One more column carries the mask through the projection: a masked position gets -1e9 on every
    # word. It saves a pass over [batch, seq, vocabulary], the largest tensor of the graph.
    column = g.op("Unsqueeze", hole, g.const("last_axis", [2], np.int64))
    words = g.weights["embeddings.word_embeddings.weight"]
    row = g.const("masked_row", np.full((1, words.shape[0]), MASKED))
    table = g.op("Transpose", g.weight("embeddings.word_embeddings.weight"), perm=[1, 0])
    logits = g.op("MatMul", g.op("Concat", x, column, axis=2), g.op("Concat", table, row, axis=0))
    # The bias is the same at every position and log(1 + relu) never falls, so both come after the max.
    best = g.op("ReduceMax", logits, axes=[1], keepdims=0)
    biased = g.op("Relu", g.op("Add", best, g.weight("cls.predictions.bias")))
    return g.op("Log", g.op("Add", biased, g.const("one", 1.0)))


def build(weights, config, task):
    """Return the ONNX model for a task, `dense` (output `embedding`) or `sparse` (`weights`)."""
    g = Graph(weights)
    x, mask, hole = encoder(g, config)
    if task == "dense":
        return finish(g, task, dense_head(g, x, mask), "embedding", config["hidden_size"])
    return finish(g, task, sparse_head(g, x, hole), "weights", config["vocab_size"])


def finish(g, task, result, output, width):
    """Return the ONNX model whose `output` [batch, width] is the node `result`."""
    g.nodes.append(helper.make_node("Identity", [result], [output], name=output))
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"]) for name in names]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", width])]
    graph = helper.make_graph(g.nodes, task, inputs, outputs, list(g.constants.values()))
    return helper.make_model(
        graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="ragbus"
    )
