#!/usr/bin/env bash
# The main job end to end on this machine: start everything, ingest real documents, ask five questions, stop cleanly.
set -euo pipefail
cd "$(dirname "$0")/.."

ragbus=${RAGBUS_BIN:-target/release/ragbus}
docs=.ragbus/demo-docs/debian-reference
log=.ragbus/demo.log
export RAGBUS__DATA_DIR=.ragbus/demo RAGBUS__TELEMETRY__HTTP_LISTEN=

fail() { echo "demo: $1" >&2; [ -s "$log" ] && { echo "--- end of $log:" >&2; tail -n 5 "$log" >&2; }; exit 1; }
[ -x "$ragbus" ] || fail "$ragbus is missing: run 'make build'"
[ -d "$docs" ] || fail "$docs is missing: run 'python3 scripts/setup.py --only demo-docs' and follow what it says"

echo "== start: NATS server, embedded store, all roles in one process (log: $log)"
"$ragbus" dev --port 0 2>"$log" &
service=$!
trap 'kill -TERM $service 2>/dev/null || true; wait $service 2>/dev/null || true' EXIT
url=
for _ in $(seq 1 100); do
  url=$(sed -n 's/^ragbus dev: NATS at \([^;]*\);.*/\1/p' "$log")
  [ -n "$url" ] && "$ragbus" --nats "$url" status >/dev/null 2>&1 && break
  kill -0 $service 2>/dev/null || fail "the service ended at once"
  sleep 0.1
done
"$ragbus" --nats "$url" status >/dev/null 2>&1 || fail "the service did not become ready"

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
kill -TERM $service
wait $service || fail "the service did not stop cleanly"
trap - EXIT
echo "done: every answer above came over NATS from documents on this machine"
