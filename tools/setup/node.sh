#!/usr/bin/env bash
# Installs the packages of the JavaScript end-to-end tests as their lock file says; nothing when they are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../tests/e2e/js"
stamp=node_modules/.installed
wanted=$(cksum <package-lock.json)
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0
npm ci --silent --no-audit --no-fund
printf '%s' "$wanted" >"$stamp"
