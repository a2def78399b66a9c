# Sourced by demo.sh and bench.sh: a service of their own on a free port, in this process group.
# Needs RAGBUS__DATA_DIR; gives $ragbus, $url and stop_service; its log is $log.

ragbus=${RAGBUS_BIN:-target/release/ragbus}
export RAGBUS__TELEMETRY__HTTP_LISTEN=

fail() {
  echo "$(basename "$0"): $1" >&2
  if [ -s "$log" ]; then echo "--- end of $log:" >&2; tail -n 5 "$log" >&2; fi
  exit 1
}

start_service() {
  [ -x "$ragbus" ] || fail "$ragbus is missing: run 'make build'"
  "$ragbus" dev --port 0 2>"$log" &
  service=$!
  trap 'kill -TERM $service 2>/dev/null || true; wait $service 2>/dev/null || true' EXIT
  for _ in $(seq 1 300); do
    url=$(sed -n 's/^ragbus dev: NATS at \([^;]*\);.*/\1/p' "$log")
    if [ -n "$url" ] && "$ragbus" --nats "$url" status >/dev/null 2>&1; then return; fi
    kill -0 $service 2>/dev/null || fail "the service ended at once"
    sleep 0.1
  done
  fail "the service did not become ready"
}

stop_service() {
  kill -TERM $service
  wait $service || fail "the service did not stop cleanly"
  trap - EXIT
}
