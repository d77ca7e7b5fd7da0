# Precompiled LibTorch headers: without them a file that includes torch takes up to 20 s. They are built once, each with the flags
# that all who share it have. A larger one takes longer to load, too, 3 s of each file against half a second: so
#
#   ddprun_pch(<target>)         tensors, for readers of data and loggers
#   ddprun_pch(<target> MODULE)  torch::nn::Module and autograd as well, for models, optimizers and what trains them
# All are compiled with OpenMP, which the headers depend on: the SDK's loops over the samples of a batch share LibTorch's threads.
find_package(OpenMP REQUIRED COMPONENTS CXX)

function(ddprun_add_pch target)
  file(CONFIGURE OUTPUT ${target}.cpp CONTENT "// Owns a precompiled header.\n")
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  target_link_libraries(${target} PRIVATE ddprun::torch ddprun_warnings)
  target_precompile_headers(${target} PRIVATE ${ARGN})
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

# All of torch/torch.h would cost every file 4 s of template instantiation; these cost 2.
ddprun_add_pch(ddprun_pch_module <torch/types.h> <torch/nn/module.h>)
ddprun_add_pch(ddprun_pch_tensor
  <ATen/core/Tensor.h> <chrono> <filesystem> <fstream> <functional> <map> <optional> <string> <vector>)
