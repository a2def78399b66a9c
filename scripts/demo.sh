#!/usr/bin/env bash
# The main job end to end on this machine: start everything, ingest real documents, ask five questions, stop cleanly.
set -euo pipefail
cd "$(dirname "$0")/.."

docs=.ragbus/demo-docs/debian-reference
log=.ragbus/demo.log
# Named after the schema version: data of an earlier one would be refused.
export RAGBUS__DATA_DIR=.ragbus/demo-schema-2
. scripts/service.sh
[ -d "$docs" ] || fail "$docs is missing: run 'python3 scripts/setup.py --only demo-docs' and follow what it says"

echo "== start: NATS server, embedded store, all roles in one process (log: $log)"
start_service

echo "== ingest: $(find "$docs" -name '*.txt' | wc -l) pages of the Debian Reference (a second run finds them unchanged)"
"$ragbus" --nats "$url" ingest "$docs" --tenant demo --corpus debian

ask() {
  echo
  echo "== ask: $1"
  "$ragbus" --nats "$url" query "$1" --tenant demo --corpus debian --limit 3
}
ask "How can I get back a file I deleted while a program still has it open?"
ask "How do I run a job every weekday at a certain time?"
ask "How can I find out that a hard disk is about to fail?"
ask "How do I stop apt from installing recommended packages?"
ask "How do I encrypt a USB stick?"

echo
echo "== stop"
stop_service
echo "done: every answer above came over NATS from documents on this machine"
