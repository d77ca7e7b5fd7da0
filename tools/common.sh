# Sourced by the scripts of this folder: messages, and commands that run behind one line of progress.
# shellcheck shell=bash
# Everything goes to stderr: stdout belongs to the program that is run in the end.

# What the program is made of, relative to the clone.
program_sources=(CMakeLists.txt CMakePresets.json cmake sdk runner plugins configs/CMakeLists.txt
  tools/build tools/setup tools/requirements.txt)

say() { printf 'ddprun: %s\n' "$*" >&2; }

# die STATUS MESSAGE...: 1 = something failed, 2 = the user has to do something first.
die() {
  local status=$1
  shift
  say "$@"
  exit "$status"
}

# refuse_other_machine ROOT: a clone's .venv and build hold programs of one kind of machine. Where login nodes and compute nodes are of two
# kinds and share their files, the second would otherwise replace what the first has installed.
refuse_other_machine() {
  local mark=$1/build/.machine made_on
  [[ -r $mark ]] || return 0
  made_on=$(<"$mark")
  [[ $made_on == "$HOSTTYPE" ]] || die 2 "this clone was set up on $made_on, and this machine is $HOSTTYPE: use a clone for each
  (or remove build and .venv, to set this one up anew)"
}

# How many compilers may run at once: a file that uses LibTorch takes up to 2 GB of memory to compile.
compilers() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 2000000)}' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo "${DDPRUN_JOBS:-$((cores < memory ? cores : memory))}"
}

# The lines of a log that say why a command failed: those around errors, else its end.
show_failure() {
  local log=$1
  { grep -nE -A3 '(^|[^a-z_])(error|ERROR|FAILED|CMake Error|fatal)(:| |\b)' -- "$log" || true; } | head -n 30 >&2
  printf '  ... the last lines:\n' >&2
  tail -n 8 -- "$log" | cut -c1-300 | sed 's/^/  /' >&2
}

# Sleeps without a process, which would outlive us and keep our stderr open: reads a pipe that nobody writes.
pause() {
  local nothing
  read -r -t "$1" nothing <> <(:) || true
}

last_line() {
  tail -n 1 -- "$1"
}

# Shows how long a command has taken and what it is at: continuously on a terminal, twice a minute elsewhere. What it is at is
# $progress of its log, the last line if nothing else was set. Runs until it is killed.
show_progress() {
  local log=$1 began=$SECONDS interval=30 line
  [[ ! -t 2 ]] || interval=0.5
  while pause "$interval"; do
    printf -v line '%d:%02d %s' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) "$("${progress:-last_line}" "$log" | tr -d '\r')"
    if [[ -t 2 ]]; then
      printf '\r\033[Kddprun: %s' "${line:0:$((${COLUMNS:-80} - 12))}" >&2
    else
      say "  ${line:0:110}"
    fi
  done
}

watched_pid='' progress_pid=''

stop_watched() {
  local status=$1
  trap - INT TERM HUP
  [[ -z $progress_pid ]] || kill "$progress_pid" 2>/dev/null || true
  [[ -z $watched_pid ]] || { kill -TERM "$watched_pid" 2>/dev/null && wait "$watched_pid"; } || true
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  say "interrupted; call it again to continue where it stopped"
  exit "$status"
}

# run_logged LOG COMMAND...: appends the command's output to LOG and shows its progress. Ctrl-C ends the command as well.
run_logged() {
  local log=$1 status=0
  shift
  trap 'stop_watched 130' INT
  trap 'stop_watched 143' TERM HUP
  "$@" >>"$log" 2>&1 </dev/null &
  watched_pid=$!
  show_progress "$log" 9>&- &
  progress_pid=$!
  wait "$watched_pid" || status=$?
  watched_pid=''
  kill "$progress_pid"
  wait "$progress_pid" 2>/dev/null || true
  progress_pid=''
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  trap - INT TERM HUP
  return "$status"
}

# take_lock FILE: waits until no other call in this clone holds it. It is released when the script ends; programs that it
# execs must be started with 9>&-.
take_lock() {
  mkdir -p -- "$(dirname -- "$1")"
  exec 9>"$1"
  flock --nonblock 9 && return
  say "another set-up or build is running in this clone: waiting for it"
  flock 9
}
