# cmake -DPACKAGE=<folder of ddprunConfigVersion.cmake> -P find_package_test.cmake: which versions find_package(ddprun) may ask for.
cmake_minimum_required(VERSION 3.25)

if(ASKED)  # by itself, below
  find_package(ddprun ${ASKED} REQUIRED CONFIG)
  return()
endif()

# expect(TRUE|FALSE <version> [<first> <last> INCLUDE|EXCLUDE]): the last three for a range.
function(expect outcome version)
  set(PACKAGE_FIND_VERSION ${version})
  set(PACKAGE_FIND_VERSION_MIN ${ARGV2})
  set(PACKAGE_FIND_VERSION_MAX ${ARGV3})
  set(PACKAGE_FIND_VERSION_RANGE_MAX ${ARGV4})
  if(ARGC GREATER 2)
    set(PACKAGE_FIND_VERSION_RANGE ${ARGV2}...${ARGV3})
  endif()
  include(${PACKAGE}/ddprunConfigVersion.cmake)
  if(NOT PACKAGE_VERSION_COMPATIBLE STREQUAL outcome)
    message(FATAL_ERROR "ddprun ${PACKAGE_VERSION} for ${ARGN} ${version}: ${PACKAGE_VERSION_COMPATIBLE}, expected ${outcome}")
  endif()
endfunction()

include(${PACKAGE}/ddprunConfigVersion.cmake)
string(REPLACE "." ";" parts ${PACKAGE_VERSION})
list(GET parts 0 major)
list(GET parts 1 minor)
math(EXPR next "${minor} + 1")
math(EXPR before "${minor} - 1")

expect(TRUE "")
expect(TRUE ${major}.${minor})
expect(TRUE ${PACKAGE_VERSION})
expect(FALSE ${PACKAGE_VERSION}.1)
expect(FALSE ${major}.${next})
expect(TRUE ${major}.${minor} ${major}.${minor} ${major}.${next} EXCLUDE)
expect(TRUE 0.1 0.1 ${PACKAGE_VERSION} INCLUDE)
expect(FALSE 0.1 0.1 ${PACKAGE_VERSION} EXCLUDE)
if(major EQUAL 0)
  expect(FALSE 0.${before})
else()
  expect(TRUE ${major}.0)
endif()

# What a project reads that was written for an older one.
execute_process(COMMAND ${CMAKE_COMMAND} -DCMAKE_PREFIX_PATH=${PACKAGE} -DASKED=0.0 -P ${CMAKE_CURRENT_LIST_FILE}
  OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE failed)
foreach(part "is ddprun ${PACKAGE_VERSION}, whose SDK differs from that of 0.0" "Ask for ${major}.${minor} in CMakeLists.txt")
  string(FIND "${text}" "${part}" at)
  if(NOT failed OR at EQUAL -1)
    message(FATAL_ERROR "find_package(ddprun 0.0) does not say '${part}' and fail: ${text}")
  endif()
endforeach()
