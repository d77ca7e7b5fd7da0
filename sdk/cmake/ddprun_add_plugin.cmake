# ddprun_add_plugin(<kind> <name> SOURCES <file>... [LINK <target>...])
#
# Builds <name>.so, a plugin of the kind model, dataset, optimizer or logger. It sees the SDK and nothing else of ddprun, and
# exports one symbol. It lies under lib/ddprun/plugins/<kind>s in the build tree and after the installation.
function(ddprun_add_plugin kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LINK")
  if(NOT kind MATCHES "^(model|dataset|optimizer|logger)$")
    message(FATAL_ERROR "ddprun_add_plugin(${kind} ${name}): the kind is model, dataset, optimizer or logger, not ${kind}.")
  endif()
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ddprun_add_plugin(${kind} ${name} SOURCES <file>... [LINK <target>...]): SOURCES is missing.")
  endif()
  set(outside ON)  # not in ddprun's own tree
  if(COMMAND ddprun_pch)
    set(outside OFF)
  endif()
  set(target ddprun_${kind}_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ddprun::sdk ${arg_LINK})
  target_link_options(${target} PRIVATE -Wl,-z,nodelete)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/ddprun/plugins/${kind}s
    INSTALL_RPATH "$ORIGIN/../../..;${DDPRUN_TORCH_DIR}/lib" INSTALL_RPATH_USE_LINK_PATH ${outside})
  install(TARGETS ${target} LIBRARY DESTINATION lib/ddprun/plugins/${kind}s)
  if(NOT outside)
    ddprun_pch(${target})
    target_link_libraries(${target} PRIVATE ddprun_warnings)
  endif()
endfunction()
