#!/usr/bin/env bash
# Builds and runs the tests of one preset: dev, asan or tsan.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
preset=$1
tools/setup/install.sh test
case "$preset" in
  tsan) target=threaded_tests ;;
  *) target=unit_tests ;;
esac
tools/setup/build.sh --preset "$preset" "$target"
exec tools/ci/suite.sh "$preset" -j "${JOBS:-$(nproc)}"
