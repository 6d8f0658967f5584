#!/usr/bin/env bash
# `make serve`: set-up, build, choose a model, start the server. Arguments go to `quern serve`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
say() { printf '%s\n' "$*" >&2; }

tools/setup/install.sh serve
[ -x build/release/bin/quern ] || say "Building quern (a few minutes the first time) ..."
model=${MODEL:-}
targets=(quern)
if [ -z "$model" ]; then
  for bundled in models/quern-nano-mxfp4 models/quern-nano; do
    if [ -f "$bundled/config.json" ]; then
      model=$bundled
      break
    fi
  done
fi
random=build/models/quern-random
[ -n "$model" ] || targets+=(make-test-checkpoint)
tools/setup/build.sh "${targets[@]}"

if [ -z "$model" ]; then
  model=$random
  if [ ! -f "$random/config.json" ]; then
    rm -rf "$random.partial"
    build/release/quern/testing/make-test-checkpoint "$random.partial" --preset tiny-dsa --layout quark-mxfp4 \
      --tokenizer-dir tests/data/tokenizer
    mv "$random.partial" "$random"
  fi
  say
  say "Note: this checkout bundles no trained model, so the server runs a tiny one with RANDOM weights. It has the"
  say "GLM architecture and shows that all works, but its answers are gibberish. For a real model: make serve MODEL=DIR"
fi
exec build/release/bin/quern serve "$model" --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" "$@"
