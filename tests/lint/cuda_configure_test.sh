#!/usr/bin/env bash
# Configuring without a CUDA Toolkit, with one, and without asking: cuda_configure_test.sh. What is
# built then is the same but for libskep-cuda.so, so that the other tests stand for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

configure() {  # configure NAME OPTION ...: the whole project; its output in NAME.log
  local name=$1
  shift
  cmake -S . -B "$folder/$name" -G Ninja -DSKEP_TESTS=OFF "$@" >"$folder/$name.log" 2>&1
}
fail() {
  echo "FAILED: $2"
  tail -n 20 "$folder/$1.log"
  failures=$((failures + 1))
}
says() {  # says NAME TEXT: line breaks count as blanks
  [[ $(tr -s '[:space:]' ' ' <"$folder/$1.log") == *"$2"* ]] || fail "$1" "configuring \"$1\" does not say \"$2\""
}
has_library() { [[ $(ninja -C "$folder/$1" -t targets all) == *bin/libskep-cuda.so:* ]]; }

# As on a machine without the toolkit.
hidden=(-DCUDAToolkit_ROOT="$folder/nowhere")
configure auto -DSKEP_CUDA=AUTO "${hidden[@]}" || fail auto "AUTO without a toolkit does not configure"
says auto "Device code: none (SKEP_CUDA is AUTO, and there is no CUDA Toolkit of version 12 or later); programs train on the CPU"
! has_library auto || fail auto "AUTO without a toolkit has libskep-cuda.so"

! configure on -DSKEP_CUDA=ON "${hidden[@]}" || fail on "ON without a toolkit configures"
says on "SKEP_CUDA is ON, but there is no CUDA Toolkit of version 12 or later: set CUDAToolkit_ROOT or CUDA_PATH, or build without it (SKEP_CUDA=OFF)"

configure off -DSKEP_CUDA=OFF || fail off "OFF does not configure"
says off "Device code: none (SKEP_CUDA is OFF); programs train on the CPU"
! has_library off || fail off "OFF has libskep-cuda.so"

! configure wrong -DSKEP_CUDA=yes || fail wrong "SKEP_CUDA=yes configures"
says wrong 'SKEP_CUDA is "yes": give OFF, ON or AUTO'

nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
if [[ -n $nvcc ]]; then
  configure toolkit -DSKEP_CUDA=AUTO || fail toolkit "AUTO with a toolkit does not configure"
  says toolkit "Device code: CUDA Toolkit "
  has_library toolkit || fail toolkit "AUTO with a toolkit has no libskep-cuda.so"
fi

((failures == 0)) || exit 1
if [[ -z $nvcc ]]; then
  echo "SKIPPED: the part with a CUDA Toolkit: there is none here"
  exit 77
fi
