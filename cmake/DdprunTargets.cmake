# Installed programs find our libraries beside them, and LibTorch in lib/ddprun/libtorch. The installation makes that a
# link to the site-packages of the build's torch; a wheel of ddprun leaves it out, and names nothing of the machine it was made on.
set(CMAKE_INSTALL_RPATH $ORIGIN/../lib $ORIGIN/../${DDPRUN_LIBTORCH_DIR}/torch/lib)
cmake_path(GET DDPRUN_TORCH_DIR PARENT_PATH ddprun_site_packages)
# The same in the build tree, so that what is installed has its run path already (BUILD_WITH_INSTALL_RPATH): a path that CMake means to
# replace later ends in an empty element, for which the loader looks in the current folder.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib/ddprun)
file(REMOVE ${PROJECT_BINARY_DIR}/${DDPRUN_LIBTORCH_DIR})
file(CREATE_LINK ${ddprun_site_packages} ${PROJECT_BINARY_DIR}/${DDPRUN_LIBTORCH_DIR} SYMBOLIC)
install(CODE "
  set(link \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${DDPRUN_LIBTORCH_DIR}\")
  if(IS_SYMLINK \"\${link}\" OR NOT EXISTS \"\${link}\")
    message(STATUS \"Linking: \${link} -> ${ddprun_site_packages}\")
    cmake_path(GET link PARENT_PATH folder)
    file(MAKE_DIRECTORY \"\${folder}\")
    file(CREATE_LINK \"${ddprun_site_packages}\" \"\${link}\" SYMBOLIC)
  endif()" COMPONENT libtorch_link)

# ddprun_decides(<target>): it decides and calls, and gains nothing by what -O3 adds to its compilation.
function(ddprun_decides target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# ddprun_add_runner_library(<folder> SOURCES <file>... [TORCH] [LOOPS] [LINK <arguments of target_link_libraries>...])
# The library ddprun_<folder> of one folder of runner/. TORCH: its files include LibTorch, so it takes the precompiled headers. LOOPS:
# it goes over data itself, number by number; the others decide.
function(ddprun_add_runner_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;LOOPS" "" "SOURCES;LINK")
  add_library(ddprun_${folder} STATIC ${arg_SOURCES})
  target_include_directories(ddprun_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/runner)
  if(NOT arg_LOOPS)
    ddprun_decides(ddprun_${folder})
  endif()
  target_link_libraries(ddprun_${folder} PRIVATE ddprun_warnings)
  if(arg_LINK)
    target_link_libraries(ddprun_${folder} ${arg_LINK})
  endif()
  if(arg_TORCH)
    target_link_libraries(ddprun_${folder} PUBLIC ddprun::sdk)
    ddprun_pch(ddprun_${folder} MODULE)
  endif()
endfunction()

# ddprun_embed_texts(<output.cpp> HEADER <file.h> NAMES <constant>... FILES <file>...)
# Writes the source that defines the constants, which the header declares, as the texts of the files, one each.
function(ddprun_embed_texts output)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER" "NAMES;FILES")
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D "files=${arg_FILES}" -D "names=${arg_NAMES}" -D header=${arg_HEADER} -D output=${output} -P ${script}
    DEPENDS ${arg_FILES} ${script}
    VERBATIM)
endfunction()

# ddprun_add_backend(<name> SOURCES <file>... [LINK <target>...])
# A library that the program loads where the machine has the device: lib/ddprun/backends/<name>.so.
function(ddprun_add_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  set(target ddprun_backend_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/runner)
  target_link_libraries(${target} PRIVATE ddprun::sdk ddprun_warnings ${arg_LINK})
  ddprun_decides(${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${DDPRUN_BACKEND_DIR}
    INSTALL_RPATH "$ORIGIN/../..;$ORIGIN/../libtorch/torch/lib;$ORIGIN/../libtorch/nvidia/cu13/lib"
    BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS ${target} LIBRARY DESTINATION ${DDPRUN_BACKEND_DIR})
endfunction()

# ddprun_add_test(<name> SOURCES <file>... [TENSORS|TORCH] [LABEL unit|dist|package|end_to_end] [LINK <target>...] [TIMEOUT <seconds>])
# A GoogleTest program, which is one of CTest's tests: to load LibTorch takes longer than most of its suites do. Its files are
# compiled as one, too, so names in anonymous namespaces must differ. TENSORS and TORCH link the SDK, with the precompiled header
# of tensors or the larger one of modules.
function(ddprun_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TENSORS;TORCH" "LABEL;TIMEOUT" "SOURCES;LINK")
  set(label unit)
  set(timeout 300)
  if(arg_LABEL)
    set(label ${arg_LABEL})
  endif()
  if(arg_TIMEOUT)
    set(timeout ${arg_TIMEOUT})
  endif()
  if(DDPRUN_SANITIZE)
    math(EXPR timeout "5 * ${timeout}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main ddprun_warnings ${arg_LINK})
  ddprun_decides(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE ddprun::sdk)
    ddprun_pch(${name} MODULE)
  elseif(arg_TENSORS)
    target_link_libraries(${name} PRIVATE ddprun::sdk)
    ddprun_pch(${name})
  endif()
  # Several tests run at once, so none of OpenMP's threads may wait by turning round and round: beside a few busy programs
  # that takes twenty times as long.
  ddprun_register_test(${name} ${label} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${timeout} ENVIRONMENT OMP_WAIT_POLICY=passive SKIP_REGULAR_EXPRESSION "${ddprun_all_skipped}")
endfunction()
