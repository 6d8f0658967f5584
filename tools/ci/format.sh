#!/usr/bin/env bash
# clang-format over our sources, in place; with --check it only reports, and fails when something would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
format=$(command -v clang-format-14 || command -v clang-format) || {
  echo "clang-format is missing; on Debian: sudo apt-get install -y clang-format-14" >&2
  exit 1
}
mapfile -t files < <(git ls-files --cached --others --exclude-standard 'quern/*.h' 'quern/*.cc' 'rust/*.h' 'tests/*.cc' 'tests/*.h' 'tools/*.cc')
if [ "${1:-}" = --check ]; then
  "$format" --dry-run --Werror "${files[@]}"
else
  "$format" -i "${files[@]}"
fi
