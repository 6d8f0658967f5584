#!/usr/bin/env bash
# Configures a preset if that is needed and builds targets of it.
#   tools/setup/build.sh [--preset NAME] [-DVAR=VALUE ...] TARGET...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
preset=release
options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --preset)
      preset=$2
      shift 2
      ;;
    -D*)
      options+=("$1")
      shift
      ;;
    *) break ;;
  esac
done
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # So that another checkout finds what this one compiled.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
fi

# A build folder that was moved or copied with its checkout still points at the old place.
cache=build/$preset/CMakeCache.txt
if [ -f "$cache" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
  rm -rf "build/$preset" build/rust
fi
# Configuring again changes nothing when nothing changed, but costs seconds: only do so for new wishes.
wishes=$(printf '%s\n' "${options[@]}" "$(cksum <CMakePresets.json)")
stamp=build/$preset/.configured
if [ ! -f "build/$preset/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wishes" ]; then
  mkdir -p build
  cmake --preset "$preset" "${options[@]}" >"build/cmake-$preset.log" 2>&1 || {
    cat "build/cmake-$preset.log" >&2
    exit 1
  }
  printf '%s' "$wishes" >"$stamp"
fi
# Ninja's progress is for terminals; elsewhere only what goes wrong is worth a line.
quiet=()
[ -t 1 ] || quiet=(--quiet)
ninja -C "build/$preset" -j "${JOBS:-$(nproc)}" "${quiet[@]}" "$@"
