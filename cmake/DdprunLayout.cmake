# One layout for the build tree and the installed tree, so that the program finds its parts relative to itself in both:
#
#   bin/ddprun               the first moments of the program, without LibTorch
#   lib/ddprun/program.so    the rest
#   lib/libddprun_sdk.so, libddprun_download.so
#   lib/ddprun/plugins/{models,datasets,optimizers,objectives,callbacks,loggers}/<name>.so
#   lib/ddprun/backends/cuda.so
#   lib/ddprun/libtorch      once installed: a link to the site-packages that have LibTorch, or such a folder
#   share/ddprun/configs/
#   share/{bash-completion,fish}/...  completions
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
add_compile_options(-fPIC)  # programs too: one precompiled header serves all
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# GCC looks through all that it holds for what it no longer needs whenever that has doubled, the precompiled header among it: a tenth to
# a fifth of a large file's seconds. From 1 GB on it is soon enough. clang-tidy takes no such option.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT CMAKE_CXX_CLANG_TIDY)
  add_compile_options(--param=ggc-min-heapsize=1000000)
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_INSTALL_LIBDIR lib)  # the same on every distribution: plugins are found at ../lib/ddprun/plugins
set(DDPRUN_PLUGIN_DIR lib/ddprun/plugins)
set(DDPRUN_BACKEND_DIR lib/ddprun/backends)
set(DDPRUN_LIBTORCH_DIR lib/ddprun/libtorch)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)  # all but the link to LibTorch, which a wheel leaves out
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/static)

# As LibTorch is compiled: without it some of its classes have more members than the library knows. Release has it anyway.
add_compile_definitions($<$<NOT:$<CONFIG:Release>>:NDEBUG>)

# Files and messages of strangers are read here. What each of these is for: docs/security.md.
add_compile_options(-fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fcf-protection)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options(-mbranch-protection=standard)
endif()
if(NOT DDPRUN_SANITIZE)
  add_compile_options($<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=3>)
endif()
add_link_options(-Wl,-z,relro,-z,now)

if(DDPRUN_SANITIZE)
  add_compile_options(-fsanitize=${DDPRUN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DDPRUN_SANITIZE})
endif()
