#!/usr/bin/env bash
# What tools/ddprun and tools/build promise, in a scratch clone whose cmake, ninja and program are stubs: they build when a source
# changed and only then, and no more than the program and what was built before; and tools/ddprun is the program in everything else.
set -euo pipefail

source_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
clone="$scratch/a clone"
calls=$scratch/calls
unset DDPRUN_WERROR DDPRUN_PYTHON  # of the one who runs the tests
parts='lib/ddprun/plugins/models/a.so lib/ddprun/plugins/models/b.so lib/libx.so share/page'
export DDPRUN_SYSTEM_PACKAGES=skip calls parts

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

# Waits until the command succeeds, for a minute at most.
await() {
  local deadline=$((SECONDS + 60))
  until "$@"; do
    ((SECONDS < deadline)) || fail "waited a minute for: $*"
    sleep 0.05
  done
}

is_sleep() { [[ $(<"/proc/$1/comm") == sleep ]]; }
group_sleeps() { [[ $(commands_of_group "$1") == *sleep* ]]; }

stub() {
  mkdir -p -- "$(dirname -- "$1")"
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x -- "$1"
}

# shellcheck disable=SC2016  # the stubs expand these
make_clone() {
  mkdir -p -- "$clone"/{cmake,sdk,runner/cli,plugins,configs}
  touch -- "$clone"/{CMakeLists.txt,CMakePresets.json,configs/CMakeLists.txt,sdk/sdk.cpp,runner/main.cpp,runner/cli/old.cpp}
  cp -R -- "$source_root/tools" "$clone/tools"
  stub "$clone/.venv/bin/python" 'echo 2.11.0'
  stub "$clone/.venv/bin/cmake" 'echo cmake "$@" >>"$calls"; mkdir -p build/release/share/ddprun
    printf "%s\n" $parts >build/release/share/ddprun/on_demand
    touch build/release/build.ninja; echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt'
  stub "$clone/.venv/bin/ninja" '[[ $* != *" build.ninja" ]] || { cp "$2/new_parts" "$2/share/ddprun/on_demand" 2>/dev/null; exit 0; }
    [[ $* != *" -t cleandead" ]] || exit 0
    echo ninja "$@" >>"$calls"; echo "$DDPRUN_ON_DEMAND, $(cd "$2" && ls -A | grep -c "^.building$")" >"$2/seen"; [[ ! -e $2/broken ]] || { echo "x.cpp:1: error: broken"; exit 1; }
    [[ ! -e $2/slow ]] || exec sleep 60
    mkdir "$2/in_use" || exit 1
    [[ -z ${reported:-} ]] || timeout 60 bash -c "until cat -- $reported | grep -q waiting; do sleep 0.05; done"  # until another one waits
    rmdir "$2/in_use"
    for target in "${@:5}"; do [[ $target != lib/* ]] || { mkdir -p "$2/${target%/*}"; touch "$2/$target"; }; done
    mkdir -p "$2/bin"; touch "$2/.ninja_log"; cp "$2/../../program" "$2/bin/ddprun"'
  stub "$clone/program" 'if [[ ${1:-} == sleep ]]; then exec sleep 60; fi
    printf "[%s]\n" "$PWD" "$@"; exit "${EXIT:-0}"'
}

# Runs the wrapper and compares what it called: "cmake ninja", "ninja" or nothing.
expect_calls() {
  local expected=$1 got
  : >"$calls"
  "$clone/tools/ddprun" >"$scratch/out" 2>"$scratch/err" || fail "$2: $(cat "$scratch/err")"
  got=$(awk '{print $1}' "$calls" | xargs)
  [[ $got == "$expected" ]] || fail "$2: called '$got', expected '$expected'"
  [[ $(<"$scratch/out") == "[$PWD]" ]] || fail "$2: stdout is not the program's own: $(<"$scratch/out")"
}

test_builds_when_needed() {
  expect_calls "cmake ninja" "first call"
  expect_calls "" "nothing changed"
  [[ ! -s $scratch/err ]] || fail "it speaks where nothing is to be done: $(<"$scratch/err")"
  touch -- "$clone/sdk/sdk.cpp"
  expect_calls "ninja" "a source was touched"
  expect_calls "" "nothing changed after that"
  rm -- "$clone/runner/cli/old.cpp"
  expect_calls "ninja" "a source was deleted"
  touch -- "$clone/plugins/new.cpp"
  expect_calls "ninja" "a source is new"
  touch -- "$clone/CMakePresets.json"
  expect_calls "cmake ninja" "the presets changed"
  touch -- "$clone/configs/mine.yaml"
  expect_calls "" "an experiment is no source"
  rm -- "$clone/build/release/bin/ddprun"
  expect_calls "ninja" "the program is gone"
}

# What ninja was asked to build by the last call.
targets() { sed -n '$s/.* -j [0-9]* //p' "$calls"; }

test_builds_the_program_and_what_was_built_before() {
  local release=$clone/build/release
  [[ $(targets) == 'bin/ddprun bin/ddprun' ]] || fail "the first calls built more than the program: $(targets)"
  "$clone/tools/build" lib/ddprun/plugins/models/a.so 2>"$scratch/err" || fail "tools/build: $(<"$scratch/err")"
  [[ $(targets) == 'lib/ddprun/plugins/models/a.so bin/ddprun' ]] || fail "a.so was not built: $(targets)"
  [[ $(<"$scratch/err") == 'ddprun: building a with '* ]] || fail "it is not one line that says what is built: $(<"$scratch/err")"
  expect_calls "" "a plugin was built"
  touch -- "$release/lib/ddprun/plugins/models/mine.so" "$release/lib/libx.so" "$clone/sdk/sdk.cpp"
  expect_calls "ninja" "a source was touched"
  [[ $(targets) == 'bin/ddprun bin/ddprun lib/ddprun/plugins/models/a.so lib/libx.so' ]] || fail "not all that is there is brought up to date: $(targets)"
  printf '%s\n' lib/libx.so >"$release/new_parts"  # the plugin was removed from the sources
  touch -- "$clone/sdk/sdk.cpp"
  expect_calls "ninja" "a plugin was removed"
  [[ $(targets) == 'bin/ddprun bin/ddprun lib/libx.so' ]] || fail "a target that there is no more is built: $(targets)"
  "$clone/tools/build" 2>"$scratch/err"
  [[ $(targets) == 'all bin/ddprun lib/libx.so' ]] || fail "without arguments it does not build all: $(targets)"
}

test_two_builds_at_once_wait_for_each_other() {
  local first second
  export reported="$scratch/err $scratch/err2"
  "$clone/tools/build" lib/ddprun/plugins/models/a.so 2>"$scratch/err" & first=$!
  "$clone/tools/build" lib/ddprun/plugins/models/b.so 2>"$scratch/err2" & second=$!
  wait "$first" || fail "the first: $(<"$scratch/err")"
  wait "$second" || fail "the second: $(<"$scratch/err2")"
  cat -- "$scratch/err" "$scratch/err2" | grep -q 'another set-up or build is running in this clone: waiting for it' || fail "none has waited"
  unset reported
  expect_calls "" "both were built"
}

# shellcheck disable=SC2016  # the stub expands it
test_what_runs_during_a_build_builds_nothing() {
  [[ $(<"$clone/build/release/seen") == 'no, 1' ]] || fail "DDPRUN_ON_DEMAND and .building: $(<"$clone/build/release/seen")"
  [[ ! -e $clone/build/release/.building ]] || fail "the mark of a build is still there"
  stub "$clone/program" 'echo "${DDPRUN_ON_DEMAND-unset}"'
  touch -- "$clone/sdk/sdk.cpp"
  [[ $("$clone/tools/ddprun" 2>/dev/null) == unset ]] || fail "the program may not build anything"
}

test_is_the_program() {
  local status=0 out
  # shellcheck disable=SC2016  # nothing may expand these
  out=$(cd /tmp && "$clone/tools/ddprun" 'two words' '' '*' '--a=$b "c"')
  [[ $out == "[/tmp]
[two words]
[]
[*]
[--a=\$b \"c\"]" ]] || fail "arguments or the current folder are changed: $out"
  EXIT=75 "$clone/tools/ddprun" >/dev/null || status=$?
  ((status == 75)) || fail "exit code 75 became $status"
  ln -s -- "$clone/tools/ddprun" "$scratch/link"
  [[ $("$scratch/link") == "[$PWD]" ]] || fail "it does not work through a symbolic link"
}

test_signals_reach_the_program() {
  local pid status=0
  "$clone/tools/ddprun" sleep &
  pid=$!
  await is_sleep "$pid"  # the very process
  kill -TERM "$pid"
  wait "$pid" || status=$?
  ((status == 143)) || fail "SIGTERM gave $status"
}

test_failed_build_runs_nothing() {
  local status=0
  touch -- "$clone/sdk/sdk.cpp" "$clone/build/release/broken"
  "$clone/tools/ddprun" >"$scratch/out" 2>"$scratch/err" || status=$?
  ((status == 1)) || fail "a failed build gave $status"
  [[ ! -s $scratch/out ]] || fail "the old program ran: $(<"$scratch/out")"
  grep -q 'x.cpp:1: error: broken' "$scratch/err" || fail "the compiler's error is not shown: $(<"$scratch/err")"
  [[ ! -e $clone/build/release/.building && ! -e $clone/build/release/.built ]] || fail "a failed build left its marks"
  rm -- "$clone/build/release/broken"
  expect_calls "ninja" "after the build was mended"
}

# The commands in a process group.
commands_of_group() {
  awk -v group="$1" '$5 == group && $3 != "Z" {print $2}' /proc/[0-9]*/stat 2>/dev/null || true
}

# True as soon as no process of the group runs; false after ten seconds. The shell that was waited for may be gone a
# moment before what it started.
group_ends() {
  local deadline=$((SECONDS + 10))
  until [[ -z $(commands_of_group "$1") ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
}

# Ctrl-C, as a terminal sends it: to the whole process group.
test_interrupted_build_leaves_nothing() {
  local pid status=0
  touch -- "$clone/sdk/sdk.cpp" "$clone/build/release/slow"
  set -m
  "$clone/tools/ddprun" >"$scratch/out" 2>"$scratch/err" &
  pid=$!
  set +m
  await group_sleeps "$pid"
  kill -INT -- "-$pid"
  wait "$pid" || status=$?
  ((status == 130)) || fail "Ctrl-C while building gave $status"
  group_ends "$pid" || fail "Ctrl-C left processes: $(commands_of_group "$pid")"
  [[ ! -e $clone/build/release/.building ]] || fail "an interrupted build left its mark"
  rm -- "$clone/build/release/slow"
  expect_calls "ninja" "after an interruption"
}

test_a_clone_of_another_kind_of_machine_is_refused() {
  local status=0
  echo other64 >"$clone/build/.machine"
  touch -- "$clone/sdk/sdk.cpp"
  : >"$calls"
  for tool in ddprun build setup; do
    status=0
    "$clone/tools/$tool" >"$scratch/out" 2>"$scratch/err" || status=$?
    ((status == 2)) || fail "$tool in a clone of another machine gave $status"
    grep -q "this clone was set up on other64, and this machine is $HOSTTYPE: use a clone for each" "$scratch/err" || fail "$tool: $(<"$scratch/err")"
  done
  [[ ! -s $calls && ! -s $scratch/out ]] || fail "it built or ran all the same: $(<"$calls")"
  rm -- "$clone/build/.machine"
  expect_calls "ninja" "no machine is noted"
  [[ $(<"$clone/build/.machine") == "$HOSTTYPE" ]] || fail "the machine is not noted"
}

test_moved_clone_is_configured_anew() {
  mv -- "$clone" "$scratch/moved"
  clone=$scratch/moved
  expect_calls "cmake ninja" "the clone was moved"
  grep -q -- --fresh "$calls" || fail "the old cache was kept"
}

make_clone
test_builds_when_needed
test_builds_the_program_and_what_was_built_before
test_two_builds_at_once_wait_for_each_other
test_is_the_program
test_signals_reach_the_program
test_failed_build_runs_nothing
test_interrupted_build_leaves_nothing
test_a_clone_of_another_kind_of_machine_is_refused
test_moved_clone_is_configured_anew
test_what_runs_during_a_build_builds_nothing
echo "passed"
