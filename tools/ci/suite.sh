#!/usr/bin/env bash
# Runs the tests of a build that is there: dev, asan, tsan or fuzz.
#   tools/ci/suite.sh SUITE [MORE CTEST OPTIONS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
suite=$1
shift
case "$suite" in
  # The Rust tests are the same in each build, and run in the release build.
  asan) select=(-E '^rust_test$' -LE slow) ;;
  # Only programs with threads are built here.
  tsan) select=(-R "$(cat build/tsan/threaded_tests.regex)") ;;
  dev) select=(-LE 'slow|system') ;;
  *) select=() ;;
esac
# Stop at the first thing a sanitizer says, with the line that did it.
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1:check_initialization_order=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
exec ctest --test-dir "build/$suite" --output-on-failure --no-tests=error "${select[@]}" "$@"
