#!/usr/bin/env bash
# debian_test.sh BUILD_FOLDER CPACK CHECKOUT: makes the packages of a build, and looks at them: what each holds, that
# nothing in them names the machine they were made on, and what they need of the distribution.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=outcome.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/outcome.sh"

build=$1 cpack=$2 checkout=$3
packages=$build/tests/packages
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

expect_files() {
  local tree=$1 file
  shift
  for file in "$@"; do [[ -e $tree/usr/$file || -L $tree/usr/$file ]] || fail "${tree##*/} has no $file"; done
}

# What one package has is not in the other.
expect_no_overlap() {
  local both
  both=$(cd -- "$scratch" && find ddprun/usr ddprun-dev/usr ! -type d -printf '%P\n' | sort | uniq -d)
  [[ -z $both ]] || fail "both packages have $both"
}

expect_no_path() {
  local path found
  for path in "$@"; do
    found=$(grep -rlaF -- "$path" "$scratch/ddprun" "$scratch/ddprun-dev" || true)
    [[ -z $found ]] || fail "$path is named in $found"
  done
}

# Below the prefix, relative to the file itself.
expect_own_runpaths() {
  local file entry runpath number=0
  while IFS= read -r -d '' file; do
    runpath=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*RUNPATH.*\[\(.*\)\]/\1/p')
    [[ -n $runpath ]] || continue
    number=$((number + 1))
    while IFS= read -r -d : entry; do
      [[ $entry == \$ORIGIN/* ]] || fail "$file looks in '$entry'"
    done <<<"$runpath:"
  done < <(find "$scratch/ddprun" -type f \( -name '*.so' -o -path '*/bin/ddprun' \) -print0)
  ((number > 20)) || fail "only $number files look for libraries in a place of their own"
}

# As installed, with a LibTorch in its place, every library is found; but those of the GPU's driver.
expect_resolved() {
  local file missing
  ln -s -- "$1" "$scratch/ddprun/usr/lib/ddprun/libtorch"
  for file in "$scratch/ddprun/usr"/{bin/ddprun,lib/ddprun/backends/*.so,lib/ddprun/plugins/*/*.so}; do
    missing=$(env -i LC_ALL=C ldd "$file" | grep 'not found' | grep -vE 'libcuda\.so|libnvidia-ml\.so' || true)
    [[ -z $missing ]] || fail "$file does not find $missing"
  done
  rm -- "$scratch/ddprun/usr/lib/ddprun/libtorch"
}

# The package of a library, and what else it is called; nothing where no package has it: it is LibTorch's, or ours.
packages_of() {
  local package
  package=$({ dpkg-query -S "*/$1" 2>/dev/null || true; } |
    sed -n 's|^\([^:]*\):[^/]* /[a-z/]*lib/[a-z0-9_]*-linux-gnu/[^/]*$|\1|p' | sed 1q)
  [[ -z $package ]] || dpkg-query -W -f '${Package}, ${Provides}\n' "$package"
}

# The package of every library that a file of ours loads is among the dependencies, and the distribution has them all.
expect_dependencies() {
  local depends file library names name found
  depends=", $(dpkg-deb -f "$packages"/ddprun_*.deb Depends),"
  for file in "$scratch/ddprun/usr"/{bin/ddprun,libexec/ddprun-complete,lib/ddprun/plugins/*/*.so}; do readelf -d "$file"; done |
    sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort -u >"$scratch/needed"
  while read -r library; do
    names=$(packages_of "$library")
    found=$names
    for name in ${names//,/}; do [[ $depends != *", $name"[,\ ]* ]] || found=''; done
    [[ -z $found ]] || fail "$library is in $names which is not in $depends"
  done <"$scratch/needed"
  if LC_ALL=C apt-get --simulate install cmake >/dev/null 2>&1; then
    apt-get --simulate install "$packages"/ddprun_*.deb "$packages"/ddprun-dev_*.deb >"$scratch/log" 2>&1 ||
      fail "apt cannot install them: $(<"$scratch/log")"
  else
    echo "apt has no lists of packages: whether it can install them is not known"
  fi
}

# Installed tools call the ddprun beside them, and keep what they make in the user's cache.
expect_installed_tools() {
  local prefix=$scratch/ddprun/usr told
  told=$(env -i PYTHONPATH="$prefix/share/ddprun/tools/lib" XDG_CACHE_HOME=/cache /usr/bin/python3 -B -c '
import tooling
from sweep import packages, program
print(packages.ENVIRONMENT, program.find(None))') || fail "the sweep's modules cannot be loaded"
  [[ $told == "/cache/ddprun/sweep_env $prefix/bin/ddprun" ]] || fail "the installed sweep uses $told"
}

[[ -z $(sed -n 's/^DDPRUN_SANITIZE:STRING=//p' "$build/CMakeCache.txt") ]] || skip "the build has sanitizers"
for tool in dpkg-deb dpkg-shlibdeps apt-cache; do
  command -v "$tool" >/dev/null || skip "$tool is missing: this is no Debian, or dpkg-dev is not installed"
done
rm -rf -- "$packages"
mkdir -p -- "$packages"
"$cpack" --config "$build/CPackConfig.cmake" -B "$packages" >"$scratch/log" 2>&1 || fail "cpack: $(<"$scratch/log")"
rm -rf -- "$packages/_CPack_Packages"
for package in ddprun ddprun-dev; do dpkg-deb -R "$packages/${package}_"*.deb "$scratch/$package"; done

expect_files "$scratch/ddprun" bin/{ddprun,ddprun-sweep,ddprun-plot,ddprun-follow,ddprun-convert,ddprun-convert-weights,ddprun-export-model} lib/libddprun_{sdk,download}.so \
  lib/ddprun/{get_libtorch,libtorch.txt,plugins/{models/mlp,datasets/digits,optimizers/sgd,loggers/csv}.so} \
  share/ddprun/{configs/{experiments,sweeps}/digits.yaml,tools/{sweep,lib/{sweep/requirements.txt,tooling/place.py}},python/ddprun/run_folder.py} \
  share/doc/ddprun/{copyright,README.md,docs/plugins.md}
expect_files "$scratch/ddprun-dev" bin/ddprun-new-plugin include/ddprun/{model,testing,version,testing/model}.h \
  lib/libddprun_testing.a lib/cmake/ddprun/ddprun{Config,ConfigVersion,_add_plugin}.cmake \
  share/ddprun/{plugin_command,new_plugin/model/plugin.cpp} share/doc/ddprun-dev/copyright
for package in ddprun ddprun-dev; do expect_pages "$scratch/$package/usr"; done
expect_completions "$scratch/ddprun/usr"
expect_no_overlap
expect_no_path "$build" "$checkout/"
expect_own_runpaths
expect_installed_tools
torch=$(sed -n 's/^DDPRUN_TORCH_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")
expect_resolved "${torch%/torch}"
expect_dependencies
grep -q "^$(grep '^torch==' "$checkout/tools/requirements.txt") " "$scratch/ddprun/usr/lib/ddprun/libtorch.txt" ||
  fail "the package's torch is not that of tools/requirements.txt"
echo "passed"
