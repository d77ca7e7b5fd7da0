# shellcheck shell=bash
# What the tests of packages share; sourced by them: how they say what came out, and what a package's commands have.

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

# Each command of a prefix has a manual page that can be read, whose name and summary are those of the command.
expect_pages() {
  local command name page
  for command in "$1"/bin/*; do
    name=${command##*/}
    page=$1/share/man/man1/$name.1.gz
    [[ -e $page ]] || fail "$name has no manual page"
    zcat -- "$page" | sed 's/\\-/-/g' | grep "^$name - [a-z]" >/dev/null || fail "the manual page of $name does not say what it is"
    command -v man >/dev/null || continue
    [[ -z $(man --warnings -E UTF-8 -l -Tutf8 -Z -- "$page" 2>&1 >/dev/null) ]] || fail "man complains of the page of $name"
  done
}

expect_completions() {
  local file
  for file in bash-completion/completions/ddprun fish/vendor_completions.d/ddprun.fish; do
    [[ -e $1/share/$file ]] || fail "share/$file is not installed"
  done
}
