# shellcheck shell=bash
# How a test of packages tells what came out; sourced by them.

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}
