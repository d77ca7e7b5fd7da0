# What GoogleTest says last where it skipped all tests of a program: none passed, and none failed, which would come after those that
# were skipped.
set(ddprun_all_skipped "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\][^\n]*\n)+[ \n]*$")
