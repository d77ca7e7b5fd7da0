#!/usr/bin/env bash
# package_test.sh BUILD_FOLDER CMAKE NINJA: installs the build under a new prefix, builds a plugin outside the tree against it,
# and runs the installed program from another folder with an empty environment.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=outcome.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/outcome.sh"

build=$1 cmake=$2 ninja=$3
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
prefix="$scratch/a prefix"

expect_files() {
  local file
  for file in "$@"; do [[ -e $prefix/$file ]] || fail "$file is not installed"; done
}

# Nothing but our own folders, and the wheels'.
expect_clean_rpaths() {
  local file rpath
  while IFS= read -r -d '' file; do
    [[ $(head -c 4 -- "$file" | tr -d '\0') == $'\x7fELF' ]] || continue  # a script
    rpath=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
    while IFS= read -r -d : entry; do
      [[ $entry == \$ORIGIN* || $entry == */torch/lib || $entry == */nvidia/*/lib ]] || fail "$file looks in '$entry'"
    done <<<"${rpath:+$rpath:}"
  done < <(find "$prefix/bin" "$prefix/lib" -type f \( -name '*.so' -o -perm -u+x \) -print0 2>/dev/null)
}

# A library or program finds what it needs; the GPU driver's own libraries come with the driver.
expect_resolved() {
  local file missing
  for file in "$@"; do
    missing=$(env -i LC_ALL=C ldd "$file" | grep 'not found' | grep -vE 'libcuda\.so|libnvidia-ml\.so' || true)
    [[ -z $missing ]] || fail "$file does not find: $missing"
  done
}

# Installed tools call the ddprun beside them, and keep what they make in the user's cache.
expect_installed_tools() {
  local reported
  reported=$(env -i PYTHONPATH="$prefix/share/ddprun/tools/lib" XDG_CACHE_HOME=/cache /usr/bin/python3 -B -c '
import tooling
from sweep import packages, program
print(packages.ENVIRONMENT, program.find(None))') || fail "the sweep's modules cannot be loaded"
  [[ $reported == "/cache/ddprun/sweep_env $prefix/bin/ddprun" ]] || fail "the installed sweep uses $reported"
}

build_consumer() {
  "$cmake" -S "$here/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_MAKE_PROGRAM="$ninja" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
    -DCMAKE_INSTALL_PREFIX="$scratch/user" --no-warn-unused-cli "$@"
}

"$cmake" --install "$build" --prefix "$prefix" >"$scratch/install.log" || { cat "$scratch/install.log"; fail "cmake --install"; }
expect_files lib/libddprun_{sdk.so,download.so,testing.a} include/ddprun/{model,plugin,testing,testing/model,version}.h \
  share/ddprun/{configs/{experiments,sweeps}/digits.yaml,new_plugin,plugin_command,python/ddprun/run_folder.py,tools/lib/table_arrays/__main__.py} \
  share/doc/ddprun/{LICENSE,README.md,docs/plugins.md,runner/features/record/record.md} bin/ddprun-{new-plugin,sweep} \
  lib/cmake/ddprun/{ddprunConfig,ddprunConfigVersion,ddprun_add_plugin,LibTorch}.cmake
expect_clean_rpaths
expect_pages "$prefix"
expect_completions "$prefix"
expect_installed_tools
mapfile -d '' -t libraries < <(find "$prefix/lib" -name '*.so' -print0)
expect_resolved "${libraries[@]}"

build_consumer || fail "a foreign project does not configure"
"$cmake" --build "$scratch/consumer" || fail "a foreign plugin does not build"
"$cmake" --install "$scratch/consumer"
plugin=$scratch/user/lib/ddprun/plugins/models/foreign.so
[[ -e $plugin ]] || fail "the foreign plugin is not installed"

# A LibTorch that is not there is said by find_package itself.
rm -rf -- "$scratch/consumer"
if output=$(build_consumer -DDDPRUN_TORCH_DIR="$scratch/nowhere" 2>&1); then fail "it configured without a LibTorch"; fi
[[ $output == *DDPRUN_TORCH_DIR* ]] || fail "the message does not name DDPRUN_TORCH_DIR: $output"

if [[ -e $build/bin/ddprun ]]; then
  expect_files bin/ddprun lib/ddprun/program.so share/ddprun/schema.{json,of}
  [[ $(bash "$prefix/share/bash-completion/completions/ddprun" "ddprun experiments/digits.yaml optimizer.l") == "optimizer.lr="* ]] || fail "it does not complete"
  expect_resolved "$prefix/bin/ddprun"
  cd /
  version=$(env -i "$prefix/bin/ddprun" --version) || fail "ddprun --version"
  [[ $version == *[0-9].[0-9]* ]] || fail "ddprun --version said: $version"
  listing=$(env -i DDPRUN_PLUGIN_PATH="$scratch/user/lib/ddprun/plugins" "$prefix/bin/ddprun" plugins) || fail "ddprun plugins"
  while IFS= read -r name; do
    grep -qw -- "$name" <<<"$listing" || fail "ddprun plugins does not list $name: $listing"
  done < <(find "$prefix/lib/ddprun/plugins" -name '*.so' -printf '%f\n' | sed 's/\.so$//')
  grep -qw foreign <<<"$listing" || fail "ddprun plugins does not list the foreign plugin: $listing"
  grep -qw foreign_data <<<"$listing" || fail "ddprun plugins does not list the foreign data set: $listing"
  [[ $listing != *"$build"* ]] || fail "the installed program looks into the build tree: $listing"
  env -i DDPRUN_PLUGIN_PATH="$scratch/user/lib/ddprun/plugins" "$prefix/bin/ddprun" plugins show foreign >"$scratch/show" ||
    fail "ddprun plugins show foreign"
  [[ ! -e $prefix/share/ddprun/configs/experiments/digits.yaml ]] ||
    env -i "$prefix/bin/ddprun" check experiments/digits.yaml || fail "ddprun check experiments/digits.yaml"
  env -i HOME="$scratch" PATH=/usr/bin:/bin "$prefix/bin/ddprun" check --build "$here/consumer/foreign.cpp" \
    experiments/digits.yaml model=foreign || fail "ddprun check --build"
fi
echo "passed"
