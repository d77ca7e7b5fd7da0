# Precompiled LibTorch headers: without them a file that includes torch takes up to 20 s. They are built once, each with the flags
# that all who share it have. A larger one takes longer to load, too, and where it holds
# no instances of templates (see below), each file makes them: 3 s against half a second. So
#
#   ddprun_pch(<target>)         tensors, for readers of data and loggers
#   ddprun_pch(<target> MODULE)  torch::nn::Module and autograd as well, for models, optimizers and what trains them
# All are compiled with OpenMP, which the headers depend on: the SDK's loops over the samples of a batch share LibTorch's threads.
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Builds pending_templates.cpp, a plugin of GCC by which precompiled headers hold the instances of templates that each file would make
# again. Sets `plugin` to its path, and `obstacle` to what is in the way where it cannot be had: then they are ordinary ones.
function(ddprun_build_pending_templates plugin obstacle)
  set(${plugin} "" PARENT_SCOPE)
  set(${obstacle} "" PARENT_SCOPE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set(${obstacle} "the compiler is not GCC" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=plugin OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT EXISTS ${folder}/include/gcc-plugin.h)
    string(REGEX MATCH "^[0-9]+" major ${CMAKE_CXX_COMPILER_VERSION})
    set(${obstacle} "GCC's headers for plugins are missing (gcc-${major}-plugin-dev)" PARENT_SCOPE)
    return()
  endif()
  set(source ${PROJECT_SOURCE_DIR}/cmake/pending_templates.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(SHA256 ${source} digest)
  string(SUBSTRING ${digest} 0 8 digest)
  set(file ${PROJECT_BINARY_DIR}/pending_templates_${digest}.so)  # a new name: what was compiled with it is compiled again
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -shared -fPIC -isystem ${folder}/include ${source} -o ${file}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT failed)  # does the compiler take it?
    execute_process(
      COMMAND ${CMAKE_CXX_COMPILER} -fplugin=${file} -Werror=unknown-pragmas -fsyntax-only -x c++
              ${PROJECT_SOURCE_DIR}/cmake/pending_templates.h
      RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  endif()
  if(failed)
    set(${obstacle} "GCC's plugin cannot be built or loaded\n${output}" PARENT_SCOPE)
    return()
  endif()
  set(${plugin} ${file} PARENT_SCOPE)
endfunction()

if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  ddprun_build_pending_templates(ddprun_pending_templates obstacle)
  if(ddprun_pending_templates)
    message(STATUS "Precompiled headers hold instances of LibTorch's templates")
  else()
    message(STATUS "Precompiled headers hold no instances of LibTorch's templates, so the build takes longer: ${obstacle}")
  endif()
endif()

function(ddprun_add_pch target)
  file(CONFIGURE OUTPUT ${target}.cpp CONTENT "// Owns a precompiled header.\n")
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  target_link_libraries(${target} PRIVATE ddprun::torch ddprun_warnings)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(ddprun_pending_templates)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pending_templates.h)
    target_compile_options(${target} PRIVATE -fplugin=${ddprun_pending_templates})
  endif()
  target_compile_options(${target} PRIVATE ${OpenMP_CXX_FLAGS})
endfunction()

function(ddprun_pch target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MODULE" "" "")
  set(owner ddprun_pch_tensor)
  if(arg_MODULE)
    set(owner ddprun_pch_module)
  endif()
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")  # another macro would invalidate the shared header
  target_precompile_headers(${target} REUSE_FROM ${owner})
  target_compile_options(${target} PRIVATE ${OpenMP_CXX_FLAGS})
endfunction()

# All of torch/torch.h would take twice as long to compile, and 2.7 GB; without instances it would cost every file 4 s, where these cost 2.
ddprun_add_pch(ddprun_pch_module <torch/types.h> <torch/nn/module.h>)
ddprun_add_pch(ddprun_pch_tensor
  <ATen/core/Tensor.h> <chrono> <filesystem> <fstream> <functional> <map> <optional> <string> <vector>)
