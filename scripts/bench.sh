#!/usr/bin/env bash
# The benchmarks of docs/benchmarks.md, through a service of their own. Other work on the machine spoils the figures.
set -euo pipefail
cd "$(dirname "$0")/.."

data=$(mktemp -d)
log=$data/log
export RAGBUS__DATA_DIR=$data/data
. scripts/service.sh
start_service
"$ragbus" --nats "$url" bench retrieve --rate 20 --seconds "${SECONDS_EACH:-20}"
"$ragbus" --nats "$url" bench ingest --documents "${DOCUMENTS:-60}"
stop_service
rm -rf "$data"
