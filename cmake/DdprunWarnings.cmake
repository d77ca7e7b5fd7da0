# ddprun_warnings: what our own targets compile with; never exported.
add_library(ddprun_warnings INTERFACE)
target_compile_options(ddprun_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
if(DDPRUN_WERROR)
  target_compile_options(ddprun_warnings INTERFACE -Werror)
endif()
