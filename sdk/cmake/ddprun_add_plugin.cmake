# ddprun_add_plugin(<kind> <name> SOURCES <file>... [LINK <target>...])
#
# Builds <name>.so, a plugin of the kind model, dataset, optimizer, objective, callback or logger. It sees the SDK and nothing
# else of ddprun, and exports one symbol. It is in lib/ddprun/plugins/<kind>s, in the build tree and after installation.
#
#   DDPRUN_PRECOMPILE   ON: compile the header of the kind beforehand. For a model the first build is 20 s of computing
#                       longer and takes 0.5 GB, and each one after it is 10 s shorter. OFF by default.
function(ddprun_add_plugin kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LINK")
  if(NOT kind MATCHES "^(model|dataset|optimizer|objective|callback|logger)$")
    message(FATAL_ERROR "ddprun_add_plugin(${kind} ${name}): the kind is model, dataset, optimizer, objective, callback or logger, "
      "not ${kind}.")
  endif()
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ddprun_add_plugin(${kind} ${name} SOURCES <file>... [LINK <target>...]): SOURCES is missing.")
  endif()
  set(outside ON)  # not in ddprun's own tree
  set(torch_lib ${DDPRUN_TORCH_DIR}/lib)
  if(COMMAND ddprun_pch)
    set(outside OFF)
    set(torch_lib $ORIGIN/../../libtorch/torch/lib)
  endif()
  set(target ddprun_${kind}_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ddprun::sdk ${arg_LINK})
  target_link_options(${target} PRIVATE -Wl,-z,nodelete)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/ddprun/plugins/${kind}s
    INSTALL_RPATH "$ORIGIN/../../..;${torch_lib}" INSTALL_RPATH_USE_LINK_PATH ${outside}
    BUILD_WITH_INSTALL_RPATH ON)  # CMake's own for a build ends in the current folder
  install(TARGETS ${target} LIBRARY DESTINATION lib/ddprun/plugins/${kind}s)
  if(NOT outside)
    if(kind MATCHES "^(model|optimizer|callback)$")
      ddprun_pch(${target} MODULE)
    else()
      ddprun_pch(${target})
    endif()
    if(NOT kind STREQUAL dataset)
      ddprun_decides(${target})
    endif()
    target_link_libraries(${target} PRIVATE ddprun_warnings)
  elseif(DDPRUN_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <ddprun/${kind}.h>)
  endif()
endfunction()

# ddprun_add_plugin_test(<kind> <name> SOURCES <file>... [LINK <target>...])
#
# Builds a GoogleTest program for the plugin of this kind and name, and adds it to CTest's tests. It has
# <ddprun/testing.h>, and as DDPRUN_PLUGIN the path of the plugin. Without GoogleTest there is a warning, and CTest lists the
# test as one that is disabled for it.
function(ddprun_add_plugin_test kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LINK")
  set(plugin ddprun_${kind}_${name})
  if(NOT TARGET ${plugin})
    message(FATAL_ERROR "ddprun_add_plugin_test(${kind} ${name}): there has to be a ddprun_add_plugin(${kind} ${name} ...) "
      "before it.")
  endif()
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ddprun_add_plugin_test(${kind} ${name} SOURCES <file>... [LINK <target>...]): "
      "SOURCES is missing.")
  endif()
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    message(WARNING "GoogleTest was not found, so the test of ${name} is left out. Debian and Ubuntu: apt install libgtest-dev, "
      "then remove this build folder and configure again.")
    add_test(NAME ${kind}.${name}_needs_GoogleTest COMMAND ${CMAKE_COMMAND} -E false)
    set_tests_properties(${kind}.${name}_needs_GoogleTest PROPERTIES DISABLED TRUE)
    return()
  endif()
  set(target ${plugin}_test)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ddprun::testing GTest::gtest_main ${arg_LINK})
  target_compile_definitions(${target} PRIVATE DDPRUN_PLUGIN="$<TARGET_FILE:${plugin}>")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}_test)
  add_dependencies(${target} ${plugin})
  add_test(NAME ${kind}.${name} COMMAND ${target})
  set_tests_properties(${kind}.${name} PROPERTIES TIMEOUT 300)
endfunction()
