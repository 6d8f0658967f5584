#!/usr/bin/env bash
# clang-tidy over our .cc files (or over those given), with the checks of .clang-tidy; any finding fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || {
  echo "clang-tidy is missing; on Debian: sudo apt-get install -y clang-tidy-14" >&2
  exit 1
}
# Compile commands come from configuring. The Rust library is not needed to read C++.
cmake --preset tidy >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard 'quern/*.cc' 'tests/*.cc' 'tools/*.cc')
fi
# Only files that some target compiles (fuzzers and benchmarks are built by other presets).
mapfile -t known < <(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' build/tidy/compile_commands.json | sort -u)
printf '%s\n' "${files[@]/#/$PWD/}" | sort -u | comm -12 - <(printf '%s\n' "${known[@]}") |
  xargs -P "${JOBS:-$(nproc)}" -n 1 "$tidy" -p build/tidy --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option
