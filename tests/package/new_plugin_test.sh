#!/usr/bin/env bash
# new_plugin_test.sh BUILD_FOLDER CMAKE NINJA CHECKOUT: writes a plugin of each kind with tools/new_plugin, from an
# installed tree and from the checkout, and does with it what its README says, word by word, in an environment that has
# nothing else. Before that, what new_plugin refuses. Without DDPRUN_NIGHTLY=1 only a model and an optimizer are written.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=outcome.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/outcome.sh"

build=$1 cmake=$2 ninja=$3 checkout=$4
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
prefix="$scratch/a prefix"
tools=$(dirname -- "$cmake"):$(dirname -- "$ninja"):/usr/bin:/bin
sanitize=$(sed -n 's/^DDPRUN_SANITIZE:STRING=//p' "$build/CMakeCache.txt")

# Runs a command with no more of an environment than a new user has.
alone() {
  env -i HOME="$scratch" PATH="$tools" ${sanitize:+CXXFLAGS="-fsanitize=$sanitize"} "$@"
}

# The commands of README.md: its indented lines.
follow_readme() {
  local folder=$1
  sed -n 's/^    //p' "$folder/README.md" >"$folder.commands"
  (($(wc -l <"$folder.commands") == 4)) || fail "README.md has other than four commands: $(<"$folder.commands")"
  (cd -- "$folder" && alone bash -euo pipefail "$folder.commands") >"$folder.log" 2>&1 ||
    fail "README.md of $folder: $(<"$folder.log")"
}

expect_trained() {
  local name=$1 least=$2 summary=$3 accuracy
  grep -q '"status": "completed"' "$summary" || fail "$name did not train to its end: $(<"$summary")"
  accuracy=$(sed -n 's/.*"test\/accuracy": \([0-9.]*\).*/\1/p' "$summary" | head -n 1)
  awk "BEGIN {exit !(${accuracy:-0} >= $least)}" ||
    fail "$name: a test accuracy of ${accuracy:-none}, expected at least $least"
}

# scaffold COMMAND KIND ACCURACY
scaffold() {
  local command=$1 kind=$2 accuracy=$3 folder="$scratch/my_$2"
  alone "$command" "$kind" "my_$kind" "$folder" >"$scratch/reported" || fail "$command $kind my_$kind"
  grep -q "ddprun my_$kind.yaml" "$scratch/reported" || fail "it does not say what to do: $(<"$scratch/reported")"
  [[ $(cd -- "$folder" && echo *) == "CMakeLists.txt README.md my_$kind.cpp my_$kind.yaml my_${kind}_test.cpp" ]] ||
    fail "other files than expected: $(ls -A "$folder")"
  ! grep -rn '@[a-z]*@' "$folder" || fail "something is not filled in"
  follow_readme "$folder"
  expect_trained "my_$kind" "$accuracy" "$folder"/outputs/*/latest/summary.json
  printf 'my_%s: %s\n' "$kind" "$(grep -E '^100% tests passed' "$folder.log")"
}

builds_precompiled() {
  alone cmake -S "$1" -B "$1/build" -DDDPRUN_PRECOMPILE=ON >"$1.log" || fail "DDPRUN_PRECOMPILE: $(<"$1.log")"
  alone cmake --build "$1/build" >"$1.log" || fail "DDPRUN_PRECOMPILE: $(<"$1.log")"
  [[ -n $(find "$1/build" -name '*.gch' -o -name '*.pch') ]] || fail "DDPRUN_PRECOMPILE precompiles nothing"
}

# refuse TEXT ARGUMENT...: exit code 2, and a message that has the text; nothing is written.
refuse() {
  local text=$1 output status=0 before
  shift
  before=$(find "$scratch/empty" | sort)
  output=$(cd -- "$scratch/empty" && alone "$prefix/bin/ddprun-new-plugin" "$@" 2>&1) || status=$?
  ((status == 2)) || fail "new_plugin $*: exit code $status, expected 2: $output"
  [[ $output == *"$text"* ]] || fail "new_plugin $*: '$output' does not say '$text'"
  [[ $(find "$scratch/empty" | sort) == "$before" ]] || fail "new_plugin $*: it left something"
}

refusals() {
  mkdir -p "$scratch/empty/taken"
  refuse 'expected KIND NAME [FOLDER]'
  refuse 'expected KIND NAME [FOLDER]' model
  refuse 'no kind of plugin "modell"; expected model, dataset, optimizer, objective, callback or logger' modell my_net
  refuse 'no kind of plugin "model dataset"' 'model dataset' my_net
  refuse 'did you mean my_net?' model My-Net
  refuse 'did you mean net2?' model 2net2
  refuse 'cannot be a plugin'\''s name' model ''
  refuse 'cannot be a plugin'\''s name' model ../net
  refuse 'at most 63' model "$(printf 'n%.0s' {1..64})"
  refuse 'convnet is the name of ddprun'\''s own model plugin' model convnet
  refuse 'digits is the name of ddprun'\''s own dataset plugin' model digits
  refuse 'taken exists already' model taken
  refuse 'taken exists already' model my_net taken
  : >"$scratch/empty/file"
  refuse 'cannot be made' model my_net file/below
  alone "$prefix/bin/ddprun-new-plugin" --help | grep -q 'ddprun-new-plugin KIND NAME \[FOLDER\]' ||
    fail "--help does not help"
}

# Where there is next to nothing, it says what to install; and CTest says why a plugin's test is not there.
says_what_is_missing() {
  local bin="$scratch/bin" tool
  mkdir -p "$bin"
  for tool in bash cat chmod dirname mkdir mktemp mv readlink rm sed tr; do ln -s "$(type -P "$tool")" "$bin/$tool"; done
  env -i HOME="$scratch" PATH="$bin" "$prefix/bin/ddprun-new-plugin" model bare "$scratch/bare" >"$scratch/reported" ||
    fail "it needs more than $(ls "$bin")"
  grep -q 'no cmake here: pip install cmake ninja' "$scratch/reported" || fail "no word of cmake: $(<"$scratch/reported")"
  grep -q 'no C++ compiler here: apt install g++' "$scratch/reported" || fail "no word of g++: $(<"$scratch/reported")"
  alone cmake -S "$scratch/bare" -B "$scratch/bare/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON >"$scratch/reported" 2>&1 || fail "without GoogleTest: $(<"$scratch/reported")"
  grep -q 'apt install libgtest-dev' "$scratch/reported" || fail "no word of GoogleTest: $(<"$scratch/reported")"
  alone ctest --test-dir "$scratch/bare/build" >"$scratch/reported" 2>&1 || true
  grep -q 'model.bare_needs_GoogleTest.*(Disabled)' "$scratch/reported" || fail "ctest: $(<"$scratch/reported")"
}

# A fresh checkout, where nothing is built, knows its own plugins' names too.
refuses_before_the_first_build() {
  local output
  mkdir -p "$scratch/clone/tools/lib"
  cp -- "$checkout/tools/new_plugin" "$scratch/clone/tools/"
  cp -R -- "$checkout/tools/lib/new_plugin" "$scratch/clone/tools/lib/"
  cp -R -- "$checkout/plugins" "$checkout/CMakeLists.txt" "$scratch/clone/"
  for name in convnet jsonl mlflow cifar100; do
    if output=$(alone "$scratch/clone/tools/new_plugin" model "$name" "$scratch/$name" 2>&1); then
      fail "it takes the name $name"
    fi
    [[ $output == *"$name is the name of ddprun's own "* ]] || fail "the name $name: $output"
  done
  alone "$scratch/clone/tools/new_plugin" model first "$scratch/first" >"$scratch/reported"
  grep -q 'tools/build ddprun_testing ddprun_download' "$scratch/reported" || fail "it does not say what to build first: $(<"$scratch/reported")"
}

"$cmake" --install "$build" --prefix "$prefix" >"$scratch/install.log" ||
  fail "cmake --install: $(<"$scratch/install.log")"
refusals
refuses_before_the_first_build
says_what_is_missing
scaffold "$prefix/bin/ddprun-new-plugin" model 0.8
if [[ ${DDPRUN_NIGHTLY:-} == 1 ]]; then
  for kind in dataset logger objective callback; do scaffold "$prefix/bin/ddprun-new-plugin" "$kind" 0.8; done
  grep -q '^| val |' "$scratch"/my_logger/outputs/*/latest/my_logger.md || fail "the logger wrote no row"
  builds_precompiled "$scratch/my_logger"
fi
if [[ $build == "$checkout/build/release" ]]; then
  scaffold "$checkout/tools/new_plugin" optimizer 0.8
else
  scaffold "$prefix/bin/ddprun-new-plugin" optimizer 0.8
fi
echo "passed"
