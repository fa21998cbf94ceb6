#!/usr/bin/env bash
# What the built programs do where a GPU is, and where none is: device_choice_test.sh BIN HAS_CUDA.
#
# Without a GPU, "auto" trains on the CPU and says why - the library is missing, or it finds no
# device - and "cuda:0" is SKEP-7201, from the simulator and from a client that has joined.
set -euo pipefail
bin=$1
case $2 in ON | TRUE | 1) has_cuda=true ;; *) has_cuda=false ;; esac
table=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../examples/loopback" && pwd)/table.toml

work=$(mktemp -d)
server=""
finish() {
  local status=$?
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT

failures=0
expect() {  # expect CODE TEXT COMMAND ...: "fails" is any exit code but 0
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  [[ $code == fails && $status -ne 0 ]] && code=$status
  if [[ $status -eq $code && $output == *"$text"* ]]; then
    grep -m 1 -F -e "$text" <<<"$output" | sed 's/^ */  /'
  else
    printf 'FAILED: %s\n  expected %s and "%s"\n  got %s and:\n%s\n' "$*" "$code" "$text" "$status" "$output"
    failures=$((failures + 1))
  fi
}

library=$bin/libskep-cuda.so
if $has_cuda; then
  [[ -r $library ]] || { echo "FAILED: this build has device code, but there is no $library"; exit 1; }
  none="cannot use cuda:0: "
else
  [[ ! -e $library ]] || { echo "FAILED: this build has no device code, but $library is there"; exit 1; }
  none="no CUDA device: there is no $(realpath "$bin")/libskep-cuda.so"
fi
has_device=false
if [[ -e /dev/nvidia0 || -e /dev/dxg ]]; then has_device=$has_cuda; fi

simulate() { "$bin/skep-simulator" run "$table" --set training.rounds=1 --no-report --output "$work/run-$1" --device "$1"; }
# A client that has joined an aggregator of its own.
agg() { "$bin/skep-aggregator" --allow-root --config "$work/agg/server.toml" "$@"; }
"$bin/skep-aggregator" --allow-root --quiet init --name 127.0.0.1 --dir "$work/agg" --devices-port 0 --enrol-port 0
"$bin/skep-aggregator" --allow-root --config "$work/agg/server.toml" serve >"$work/ready" 2>"$work/serve.log" &
server=$!
for ((i = 0; i < 600; ++i)); do
  if grep -q '^ready' "$work/ready"; then break; fi
  kill -0 "$server" 2>/dev/null || { echo "FAILED: the aggregator ended"; cat "$work/serve.log"; exit 1; }
  sleep 0.1
done
agg --quiet population create example
agg token create --population example | "$bin/skep-client" --quiet --storage "$work/device" join -
client() { "$bin/skep-client" --storage "$work/device" "$1" --data-experiment "$table" --set "limits.device=$2"; }

if $has_device; then
  expect 0 "trains on cuda:0, " simulate auto
  expect 0 "trains on cuda:0, " client doctor auto
else
  expect 0 "trains on CPU: $none" simulate auto
  expect fails "SKEP-7201" simulate cuda:0
  expect 0 "trains on CPU: $none" client doctor auto
  expect fails "SKEP-7201" client run cuda:0
fi
expect fails "SKEP-7201" simulate cuda:1000
((failures == 0))
