#!/bin/sh
# The check of a device (scripts/gpu_check) where there is one: gpu_test.sh BIN HAS_CUDA. Else SKIPPED, with what is missing.
set -eu
bin=$1
has_cuda=$2
if [ ! -e /dev/nvidia0 ] && [ ! -e /dev/dxg ]; then
  echo "SKIPPED: no CUDA device here"
  exit 77
fi
case $has_cuda in
  ON | TRUE | 1) ;;
  *)
    echo "SKIPPED: there is a device, but no device code in this build (SKEP_CUDA)"
    exit 77
    ;;
esac
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$(dirname "$0")/../../scripts/gpu_check" --prebuilt "$bin" --out "$out" --evidence "$out/gpu-evidence.json"
