#!/bin/sh
# Makes quern-nano again, from a seed: data, training, export, MXFP4, measurements. One command, from anywhere:
#   tools/nano/retrain.sh [SEED] [SECONDS]
# Needs python3 with venv, and g++ with AVX-512 for the fast attention (else torch's is used). Training takes SECONDS (default
# two and a half hours; made for 2 cores, see README.md); stopped and started again it goes on where it was saved.
set -eu
cd "$(dirname "$0")/../.."
seed=${1:-1}
seconds=${2:-9000}
work=build/nano/seed-$seed
venv=${NANO_VENV:-build/.venv-nano}

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet -r tools/nano/requirements.txt
run() { "$venv/bin/python" "tools/nano/$@"; }

mkdir -p "$work"
[ -e "$work/data/story.npz" ] || run data.py --out "$work/data" --tokens 40000000 --seed "$seed"

# Large buffers are kept instead of given back to the system after each use, and oneDNN keeps the code of every shape.
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=4000000000 GLIBC_TUNABLES=glibc.malloc.hugetlb=1
export ONEDNN_PRIMITIVE_CACHE_CAPACITY=8192 OMP_NUM_THREADS=1
run train.py --data "$work/data" --out "$work" --seed "$seed" --seconds "$seconds"
unset OMP_NUM_THREADS

run export.py --model "$work/model.pt" --out models/quern-nano --check
run quantize.py --model models/quern-nano --out models/quern-nano-mxfp4
run acceptance.py --model models/quern-nano
