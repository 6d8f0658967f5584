#!/usr/bin/env bash
# Makes .venv with the packages of the end-to-end tests; does nothing when it is there and current.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
requirements=tests/e2e/requirements.txt
stamp=.venv/.installed
# The path is part of the stamp: a virtual environment does not survive being moved.
wanted=$(printf '%s\n' "$PWD" && cat "$requirements")
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0

# Debian's own Python is the one python3-venv was installed for.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
printf '%s' "$wanted" >"$stamp"
