"""Find a PostgreSQL server of version 15 or newer, or install it where that is possible."""
import os
import re
import shutil
from pathlib import Path

from setup_common import SetupError, last_lines, run, say

OLDEST = 15
# Distributions keep server programs in versioned folders, off the PATH.
PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/local/pgsql/bin")


def server_version(program):
    """Return the major version a `postgres` program reports, or 0."""
    found = re.search(r"PostgreSQL\)? (\d+)", run([program, "--version"])[1])
    return int(found.group(1)) if found else 0


def find_server():
    """Return (version, path) of the newest server program on this machine, or (0, None)."""
    programs = [folder / "postgres" for place in PLACES for folder in Path("/").glob(place)]
    on_path = shutil.which("postgres")
    programs += [Path(on_path)] if on_path else []
    versions = [(server_version(path), path) for path in programs if os.access(path, os.X_OK)]
    # On a tie the first one wins: in a versioned folder initdb and pg_ctl stand beside the server.
    return max(versions, key=lambda found: found[0], default=(0, None))


def setup_postgres():
    """Report a fitting server, or install Debian's package as root, or say what to do."""
    version, path = find_server()
    if version >= OLDEST:
        say(f"found PostgreSQL {version} server at {path}")
        return
    advice = f"Install a PostgreSQL server of version {OLDEST} or newer; on Debian: `apt-get install postgresql-15`"
    if shutil.which("apt-get") is None:
        raise SetupError(f"no PostgreSQL server found and no apt-get to install one. {advice}.")
    if os.geteuid() != 0:
        raise SetupError(f"no PostgreSQL server found. {advice} as root, or run this step as root.")
    say("installing postgresql-15 with apt-get")
    # Run level 1 (rescue) tells Debian's service scripts not to start a cluster nobody asked for.
    command = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "install", "-y", "postgresql-15"]
    code, output = run(command)
    if code != 0:
        run(["apt-get", "update"])
        code, output = run(command)
    version, path = find_server()
    if code != 0 or version < OLDEST:
        raise SetupError(f"apt-get could not install postgresql-15:\n{last_lines(output)}\n{advice} by hand.")
    say(f"installed PostgreSQL {version} server at {path}")
