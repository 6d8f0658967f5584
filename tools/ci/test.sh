#!/usr/bin/env bash
# `make test`: everything that proves quern right, from set-up to one summary of all tests.
#   QUERN_TEST_SKIP="asan tsan fuzz" leaves builds out, for machines short of time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

started=$SECONDS
phases=()
phase() {  # phase NAME COMMAND...: runs it and notes how long it took
  local name=$1 start=$SECONDS
  shift
  printf '== %s\n' "$name"
  "$@" || {
    printf '== %s FAILED after %d s\n' "$name" $((SECONDS - start)) >&2
    exit 1
  }
  phases+=("$(printf '%6d s  %s' $((SECONDS - start)) "$name")")
}

suites=()
for suite in asan tsan fuzz; do
  case " ${QUERN_TEST_SKIP:-} " in
    *" $suite "*) ;;
    *) suites+=("$suite") ;;
  esac
done

phase "set-up: packages" tools/setup/install.sh test
phase "set-up: Python and Node.js packages of the end-to-end tests" \
  bash -c 'tools/setup/python.sh && tools/setup/node.sh'
suite_list=$(IFS=';' && printf '%s' "${suites[*]:-}")
phase "build: release and all tests" tools/setup/build.sh "-DQUERN_TEST_SUITES=$suite_list" all
for suite in "${suites[@]}"; do
  case "$suite" in
    asan) targets=(unit_tests) ;;
    tsan) targets=(threaded_tests) ;;
    fuzz) targets=(fuzzers) ;;
  esac
  phase "build: $suite" tools/setup/build.sh --preset "$suite" "${targets[@]}"
done

printf '== times\n'
printf '%s\n' "${phases[@]}"
printf '%6d s  before the tests\n' $((SECONDS - started))
printf '== tests\n'
ctest --test-dir build/release --output-on-failure --no-tests=error -j "${JOBS:-$(nproc)}"
