# Run by CTest where it begins: makes one of its tests of each suite of a GoogleTest program. A process for each single test would
# load LibTorch for longer than most of them run. Several tests run at once, so none of OpenMP's threads may wait by turning round and
# round: beside a few busy programs that takes twenty times as long.
#
#   ddprun_discover_suites(<program> <label> <timeout>)

# What GoogleTest says last where it skipped all tests: none passed, and none failed, which would come after those that were skipped.
set(ddprun_all_skipped "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\][^\n]*\n)+[ \n]*$")

function(ddprun_discover_suites program label timeout)
  cmake_path(GET program STEM name)
  if(NOT EXISTS ${program})
    add_test(${name}_is_not_built ${program})
    return()
  endif()
  execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE list RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} --gtest_list_tests failed: ${failed}")
  endif()
  string(REGEX MATCHALL "(^|\n)[^ \n]+\\." suites "${list}")
  foreach(suite ${suites})
    string(REGEX REPLACE "^\n|\\.$" "" suite "${suite}")
    add_test("${suite}" "${program}" "--gtest_filter=${suite}.*")
    set_tests_properties("${suite}" PROPERTIES
      LABELS ${label} TIMEOUT ${timeout} ENVIRONMENT OMP_WAIT_POLICY=passive SKIP_REGULAR_EXPRESSION "${ddprun_all_skipped}")
  endforeach()
endfunction()
