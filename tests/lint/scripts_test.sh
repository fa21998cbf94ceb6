#!/usr/bin/env bash
# The scripts are free of shell mistakes, and scripts/setup answers as it says without touching the system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failures=0
expect() {  # expect CODE TEXT COMMAND ...: the command's exit code, and a part of its output (line breaks count as blanks)
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  if [[ $status -ne $code || $(tr -s '[:space:]' ' ' <<<"$output") != *"$text"* ]]; then
    printf 'FAILED: %s\n  expected %s and "%s"\n  got %s and:\n%s\n' "$*" "$code" "$text" "$status" "$output"
    failures=$((failures + 1))
  fi
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/packages.txt" <<'LIST'
[there]
bash   # always installed
[absent]
skep-no-such-package
bash
LIST

setup() { env SKEP_PACKAGE_LIST="$folder/packages.txt" scripts/setup "$@"; }
expect 0 "all 1 packages are installed (there)" setup --sections there
expect 0 "all 1 packages are installed (there)" setup --sections there --check
expect 1 "missing (1 of 3): skep-no-such-package" setup --sections there,absent --check
expect 2 'no section "other"' setup --sections other
expect 2 'unknown option "--section"' setup --section there
expect 2 "needs a list" setup --sections

# Neither root nor sudo: the packages and the command are named.
if ((EUID == 0)) && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
  mkdir -p "$folder/tree/scripts" "$folder/tree/packaging" "$folder/empty"
  cp scripts/setup "$folder/tree/scripts/"
  cp "$folder/packages.txt" "$folder/tree/packaging/"
  for tool in bash env dirname awk mawk dpkg-query; do
    ln -sf "$(command -v "$tool")" "$folder/empty/$tool"
  done
  chmod -R a+rX "$folder"
  expect 1 "apt-get install --no-install-recommends skep-no-such-package" \
    setpriv --reuid nobody --regid nogroup --clear-groups env -i PATH="$folder/empty" \
    bash "$folder/tree/scripts/setup" --sections absent
fi

# Configuring stops on a system that nobody tried, in one sentence; SKEP_PROGRAMS is checked.
platform() {  # platform ID VERSION PROCESSOR PROGRAMS
  printf 'ID=%s\nVERSION_ID="%s"\n' "$1" "$2" >"$folder/os-release"
  printf 'cmake_minimum_required(VERSION 3.25)\ninclude(%s/cmake/platform.cmake)\nskep_check_platform()\n' "$PWD" >"$folder/check.cmake"
  cmake -DSKEP_OS_RELEASE="$folder/os-release" -DCMAKE_SYSTEM_PROCESSOR="$3" -DSKEP_PROGRAMS="$4" -P "$folder/check.cmake"
}
expect 0 "" platform debian 12 x86_64 all
expect 0 "" platform ubuntu 24.04 x86_64 all
expect 0 "" platform debian 12 aarch64 client
expect 1 "Debian 12, Debian 13 and Ubuntu 24.04" platform debian 11 x86_64 all
expect 1 "Debian 12, Debian 13 and Ubuntu 24.04" platform arch "" x86_64 all
expect 1 "this is debian 12 on aarch64" platform debian 12 aarch64 all

expect 2 'no stage "nonsense"' scripts/test nonsense
expect 2 'unknown option "--nonsense"' scripts/quickstart --nonsense
expect 2 'unknown option "--nonsense"' scripts/compare --nonsense
expect 2 'no peer "nonsense"; torch, debian, jax' scripts/compare --peers torch,nonsense

((failures == 0)) || exit 1
if ! command -v shellcheck >/dev/null; then
  echo "SKIPPED: shellcheck is not installed (scripts/setup --sections tools)"
  exit 77
fi
mapfile -t shell_scripts < <(grep -lE '^#!.*\b(ba)?sh$' scripts/* .ci/run cmake/*.sh tests/*/*.sh examples/*/run)
shellcheck "${shell_scripts[@]}"
