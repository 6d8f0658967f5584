#!/usr/bin/env bash
# Builds and runs every Google Benchmark program (*_bench), and says on what machine. BENCH_FILTER=REGEX picks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools/setup/install.sh serve
tools/setup/build.sh --preset bench benchmarks
printf 'machine: %s, %s cores; commit %s\n' \
  "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
find build/bench -name '*_bench' -type f -executable | sort | while read -r program; do
  printf '== %s\n' "$(basename "$program")"
  "$program" --benchmark_filter="${BENCH_FILTER:-.}"
done
