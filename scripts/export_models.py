"""Write a model as ONNX, from safetensors weights or by quantizing a finished graph.

Runs in the private venv that setup.py makes:
    python export_models.py float WEIGHTS.safetensors CONFIG.json dense|sparse|pair OUT.onnx
    python export_models.py int8 IN.onnx OUT.onnx
"""
import json
import logging
import sys
from pathlib import Path

import onnx
from safetensors.numpy import load_file

from bert_graph import build
from pair_graph import stand_in


def read_weights(path):
    """Return the checkpoint's tensors under the names bert_graph uses."""
    renamed = {}
    for name, value in load_file(path).items():
        # The encoder of a model with a head has a prefix, and old checkpoints call a norm's parts gamma and beta.
        name = name[len("bert."):] if name.startswith("bert.") else name
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        renamed[name] = value
    return renamed


def write_float(weights, config, task, out):
    """Write the fp32 graph of a checkpoint."""
    tensors, settings = read_weights(weights), json.loads(Path(config).read_text(encoding="utf-8"))
    model = stand_in(tensors, settings) if task == "pair" else build(tensors, settings, task)
    onnx.checker.check_model(model, full_check=True)
    Path(out).write_bytes(model.SerializeToString(deterministic=True))


def write_int8(source, out):
    """Write the dynamically quantized form of a finished fp32 graph."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # The quantizer advises graph fusions that would make the fp32 and int8 graphs differ in more than precision.
    logging.disable(logging.WARNING)
    quantize_dynamic(source, out, per_channel=True, weight_type=QuantType.QInt8)


def main(arguments):
    """Dispatch on the first argument; return the exit code."""
    actions = {"float": (write_float, 4), "int8": (write_int8, 2)}
    action, count = actions.get(arguments[0] if arguments else "", (None, 0))
    if action is None or len(arguments) != count + 1:
        print(__doc__, file=sys.stderr)
        return 2
    action(*arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
