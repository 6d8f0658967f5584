#!/usr/bin/env bash
# Sees that this machine has what quern is built with; installs what is missing (Debian 12, as root or with sudo).
#   tools/setup/install.sh serve    what `make serve` needs
#   tools/setup/install.sh test     that, and what `make test` needs on top
# When nothing is missing it only looks, which takes a fraction of a second.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
purpose=${1:-serve}

say() { printf 'set-up: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

case "$purpose" in
  serve) lists=("$here/apt-packages.txt") ;;
  test) lists=("$here/apt-packages.txt" "$here/apt-packages-test.txt") ;;
  *) fail "unknown purpose \"$purpose\"; want serve or test" ;;
esac

# Is `$1` (a version such as 1.95.0) at least `$2`?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The packages of the lists that dpkg does not know as installed.
missing_packages() {
  local wanted installed
  wanted=$(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "${lists[@]}" | sort -u)
  # dpkg-query complains about packages it never heard of; those are the point.
  installed=$(xargs dpkg-query -W -f '${db:Status-Status} ${Package}\n' <<<"$wanted" 2>/dev/null |
    sed -n 's/^installed //p' | sort -u || true)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

# Rust: the cargo at hand if it is new enough (rust/Cargo.toml says), else Debian's current one.
rust_wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$root/rust/Cargo.toml")
PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
rust_found() {
  local version
  version=$( (cargo --version && rustc --version) 2>/dev/null | awk 'NR == 1 {print $2}') || true
  [ -n "$version" ] && at_least "$version" "$rust_wanted"
}

missing=()
if command -v dpkg-query >/dev/null; then
  mapfile -t missing < <(missing_packages)
else
  say "this is no Debian system, so nothing is installed or checked here. Wanted are the equivalents of:"
  sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "${lists[@]}" | sort -u | paste -sd' ' >&2
fi
if ! rust_found; then
  if command -v rustup >/dev/null; then
    fail "cargo is older than Rust $rust_wanted or does not run; bring it up to date with: rustup update stable"
  fi
  missing+=(cargo-web rustc-web)  # Debian's current Rust: it is kept up to date for web browsers
fi
if [ "$purpose" = test ]; then
  # By command, not by package: a Node.js from elsewhere is as good.
  node_version=$(node --version 2>/dev/null | tr -d v) || true
  if [ -z "$node_version" ] || ! at_least "$node_version" 18; then missing+=(nodejs); fi
  command -v npm >/dev/null || missing+=(npm)
fi
[ ${#missing[@]} -eq 0 ] && exit 0
command -v apt-get >/dev/null || fail "missing: ${missing[*]}; please install them"

manual="sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  # sudo may ask for a password only where somebody can type one.
  if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && [ ! -t 0 ]; }; then
    say "these packages are missing, and installing them needs root (no usable sudo here):"
    say "  ${missing[*]}"
    fail "ask an administrator to run:  $manual"
  fi
  as_root=(sudo)
fi

say "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1
}
# A stale mirror entry makes `update` fail while what is wanted is still there: `install` decides.
apt update || say "apt-get update had errors; trying to install all the same"
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  tail -n 20 "$log" >&2
  fail "apt-get could not install them. To see why, run:  $manual"
fi
rust_found || fail "cargo still is not Rust $rust_wanted or newer: $(command -v cargo || echo none) comes first in PATH; remove it or update it"
say "done"
