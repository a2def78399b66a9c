#!/usr/bin/env python3
"""Put the native parts, the models and demo documents where ragbus looks for them.

    python3 scripts/setup.py [--root .ragbus] [--only nats|onnx|models|demo-docs|postgres]

Safe to run again at any time: what is there and intact is kept, what is missing or damaged is
made, and a killed run continues where it stopped. Needs Python 3.9 or newer with pip.
"""
import argparse
import fcntl
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from setup_common import SetupError, say  # noqa: E402  (after the bytecode switch)
from setup_demo_docs import setup_demo_docs  # noqa: E402
from setup_models import setup_models  # noqa: E402
from setup_postgres import setup_postgres  # noqa: E402
from setup_wheels import install_native  # noqa: E402

STEPS = ("nats", "onnx", "models", "demo-docs")
# Only what asks for a server of its own needs one: the tests do.
ON_REQUEST = ("postgres",)


def read_options():
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(".ragbus"), help="folder to fill (default .ragbus)")
    parser.add_argument("--only", choices=STEPS + ON_REQUEST, help="do this one step")
    return parser.parse_args()


def run_step(step, root, pins):
    """Do one step."""
    if step == "models":
        setup_models(root, pins)
    elif step == "demo-docs":
        setup_demo_docs(root)
    elif step == "postgres":
        setup_postgres()
    else:
        install_native(root, pins, step)


def lock(root):
    """Hold the folder for this run; the handle must stay open until the end."""
    handle = open(root / ".setup.lock", "w", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another setup is running in this folder; waiting for it")
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def setup(options):
    """Do the chosen steps in order."""
    pins = json.loads(Path(__file__).with_name("pins.json").read_text(encoding="utf-8"))
    options.root.mkdir(parents=True, exist_ok=True)
    with lock(options.root):
        for step in [options.only] if options.only else STEPS:
            try:
                run_step(step, options.root, pins)
            except SetupError as error:
                # A machine without apt can do everything but the demo documents, so only asking for them fails.
                if step != "demo-docs" or options.only:
                    raise
                say(f"skipped demo-docs: {error}")
    say("setup is complete")


def main():
    """Run, and turn what the user can fix into one message and exit code 1."""
    try:
        setup(read_options())
    except SetupError as error:
        print(f"setup failed: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"setup failed: {error.filename or 'system'}: {error.strerror}. Free space or fix permissions, then run again.",
              file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup was interrupted; run it again to continue", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
