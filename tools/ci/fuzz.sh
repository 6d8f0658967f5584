#!/usr/bin/env bash
# Fuzzes every parser for FUZZ_SECONDS (default 600) each, from its committed corpus and what earlier runs found.
# A crash leaves its input in build/fuzz/crashes/: add it to the corpus with the fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools/setup/install.sh test
tools/setup/build.sh --preset fuzz fuzzers
mkdir -p build/fuzz/crashes
python3 - "${FUZZ_SECONDS:-600}" <<'PY'
import json, subprocess, sys

listed = subprocess.run(["ctest", "--test-dir", "build/fuzz", "--show-only=json-v1"],
                        check=True, capture_output=True, text=True)
tests = [t for t in json.loads(listed.stdout)["tests"] if "command" in t]
if not tests:
    sys.exit("no fuzz targets in build/fuzz")
failed = []
for test in tests:
    program, *arguments = test["command"]
    kept = [a for a in arguments if not a.startswith("-max_total_time=")]
    print(f"== {test['name']}: {sys.argv[1]} s", flush=True)
    run = subprocess.run([program, *kept, f"-max_total_time={sys.argv[1]}",
                          "-artifact_prefix=build/fuzz/crashes/" + test["name"] + "-"])
    if run.returncode != 0:
        failed.append(test["name"])
sys.exit(f"failed: {', '.join(failed)}; inputs are in build/fuzz/crashes/" if failed else 0)
PY
