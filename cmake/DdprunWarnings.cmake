# ddprun_warnings: what our own targets compile with; never exported.
add_library(ddprun_warnings INTERFACE)
target_compile_options(ddprun_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
# GCC 12 sees overlaps and overflows in "text" + std::string that are not there (its bugs 105329 and 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ddprun_warnings INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
# Nor does it follow std::regex and std::function through what a sanitizer adds to them.
if(DDPRUN_SANITIZE)
  target_compile_options(ddprun_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
if(DDPRUN_WERROR)
  target_compile_options(ddprun_warnings INTERFACE -Werror)
endif()
