#!/bin/sh
# Makes every golden again. One command, from anywhere:
#   tools/goldens/make_all.sh
# Builds quern's checkpoint generator, sets up a Python environment with the pinned tools (requirements.txt) in
# $GOLDENS_VENV (default: build/.venv-goldens) and runs the scripts of this folder. About an hour on two
# cores; nothing but the pinned packages is downloaded.
set -eu
cd "$(dirname "$0")/../.."
build=${GOLDENS_BUILD:-build/goldens}
venv=${GOLDENS_VENV:-build/.venv-goldens}

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
cmake --build "$build" --target make-test-checkpoint

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet -r tools/goldens/requirements.txt

run() { "$venv/bin/python" "tools/goldens/$1" ${2+"$2" "$3"}; }
run make_logits.py --tool "$build/quern/testing/make-test-checkpoint"
run make_stored_checkpoints.py
run make_router_bias.py
run make_quark_mxfp4.py
run make_tiny_tokenizer.py
run make_chat_goldens.py
run make_nano.py
git status --short tests/golden tests/data
