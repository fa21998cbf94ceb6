#!/bin/sh
# Runs one test program: run_test.sh SANITIZERS PROGRAM [ARGUMENTS].
# ThreadSanitizer aborts at start on hosts that randomise mappings over more bits than it knows.
set -eu
sanitizers=$1
shift
case "$sanitizers" in
  *thread*) exec setarch "$(uname -m)" -R "$@" ;;
  *) exec "$@" ;;
esac
