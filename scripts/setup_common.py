"""Small helpers every setup step uses: messages, hashes, running commands."""
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path


class SetupError(Exception):
    """A failure the user can act on: the text names the thing and says how to fix it."""


def say(text):
    """Print one line about something done or found done, at once even when piped."""
    print(text, flush=True)


def sha256_of(path):
    """Return the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def check_sha256(path, expected, fix):
    """Raise a SetupError naming `path` when its hash is not the pinned one."""
    found = sha256_of(path)
    if found != expected:
        raise SetupError(
            f"{path} has the wrong sha256\n  found  {found}\n  pinned {expected}\n{fix}"
        )


def machine():
    """Return the pinned name of this machine's processor, or explain that it has none."""
    name = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if sys.platform != "linux" or name not in ("x86_64", "aarch64"):
        raise SetupError(
            f"unsupported platform: {sys.platform} on {platform.machine()}. The pinned native parts are for"
            " Linux with glibc on x86-64 or aarch64; use such a machine or a container of that kind."
        )
    if platform.libc_ver()[0] not in ("glibc", ""):
        raise SetupError("unsupported platform: the pinned native parts need glibc 2.28 or newer.")
    return name


def run(command, cwd=None):
    """Run a command and return (exit code, output); a missing program is exit code 127."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
    except FileNotFoundError:
        return 127, f"{command[0]}: not found"
    return done.returncode, done.stdout


def last_lines(output, count=3):
    """Return the last non-empty lines of a command's output, indented for a message."""
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join("  " + line.strip() for line in lines[-count:])


def fresh_folder(path):
    """Return `path` as an empty folder; what a killed run left in it goes."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def replace_folder(new, old):
    """Put the finished folder `new` in the place of `old` by rename."""
    # A folder cannot be renamed over a non-empty one. The pause between the two renames is
    # harmless: a run killed there finds no folder next time and makes it again.
    retired = old.with_name(f".old-{old.name}")
    shutil.rmtree(retired, ignore_errors=True)
    if old.exists():
        os.replace(old, retired)
    os.replace(new, old)
    shutil.rmtree(retired, ignore_errors=True)


def shown(path):
    """Return a path relative to the working folder when that is shorter to read."""
    try:
        return Path(path).resolve().relative_to(Path.cwd())
    except ValueError:
        return Path(path)
