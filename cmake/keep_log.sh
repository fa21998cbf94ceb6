#!/bin/sh
# Runs a compiler, and keeps what the assembler of kernels says about them: keep_log.sh LOG COMMAND ...
# It says it for every kernel of every build, so what it says is not shown unless the compiler fails.
set -u
log=$1
shift
part=$log.$$
"$@" >"$part" 2>&1
status=$?
if [ "$status" -ne 0 ]; then
  cat "$part"
elif grep -q '^ptxas info' "$part"; then
  grep -v -e '^ptxas info' -e ' bytes stack frame, ' "$part"
  mv "$part" "$log"
else
  cat "$part"
fi
rm -f "$part"
exit "$status"
