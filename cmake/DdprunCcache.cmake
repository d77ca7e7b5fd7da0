# Compiles through ccache where it is installed, so that another clone of the same sources builds in a fraction of the time.
#
# ccache has to be told that files with a precompiled header may be cached (sloppiness), and that neither the clone's place nor
# the build folder's matters (base_dir, hash_dir). The settings go through the environment of each call: the user's ccache.conf
# stays as it is.
find_program(DDPRUN_CCACHE ccache DOC "ccache; empty to compile without")
if(DDPRUN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${DDPRUN_CCACHE})
endif()
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)  # no message names the clone's place
