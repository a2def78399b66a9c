#!/usr/bin/env bash
# The benchmarks of docs/benchmarks.md, through a service of their own. Other work on the machine spoils the figures.
set -euo pipefail
cd "$(dirname "$0")/.."

ragbus=${RAGBUS_BIN:-target/release/ragbus}
data=$(mktemp -d)
log=$data/log
export RAGBUS__DATA_DIR=$data/data RAGBUS__TELEMETRY__HTTP_LISTEN=
"$ragbus" dev --port 0 2>"$log" &
service=$!
trap 'kill -TERM $service 2>/dev/null || true; wait $service 2>/dev/null || true; rm -rf "$data"' EXIT
url=
for _ in $(seq 1 100); do
  url=$(sed -n 's/^ragbus dev: NATS at \([^;]*\);.*/\1/p' "$log")
  [ -n "$url" ] && "$ragbus" --nats "$url" status >/dev/null 2>&1 && break
  kill -0 $service 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
"$ragbus" --nats "$url" bench retrieve --rate 20 --seconds "${SECONDS_EACH:-20}"
"$ragbus" --nats "$url" bench ingest --documents "${DOCUMENTS:-60}"
