# A program counts as skipped where GoogleTest skipped all of it, and not where all of it failed.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/DdprunSkipped.cmake)

set(none_passed "[  PASSED  ] 0 tests.\n")
set(one_skipped "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Gpu.IsThere\n")
set(one_failed "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Gpu.Computes\n\n 1 FAILED TEST\n")
if(NOT "${none_passed}${one_skipped}" MATCHES "${ddprun_all_skipped}")
  message(FATAL_ERROR "a program that is skipped does not count as skipped")
endif()
foreach(output "${none_passed}${one_failed}" "${none_passed}${one_skipped}${one_failed}" "[  PASSED  ] 1 test.\n${one_skipped}")
  if("${output}" MATCHES "${ddprun_all_skipped}")
    message(FATAL_ERROR "this counts as skipped:\n${output}")
  endif()
endforeach()
