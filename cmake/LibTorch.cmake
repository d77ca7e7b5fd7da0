# LibTorch as the torch wheel brings it, without TorchConfig.cmake: that one demands a CUDA toolkit on every machine, loads
# libtorch_cuda into programs that never see a GPU, and probes architectures in a way that old CMakes fail.
#
#   DDPRUN_TORCH_DIR   site-packages/torch of the wheel; found in DDPRUN_PYTHON, ./.venv or python3 where it is not given
#
#   ddprun::torch       libtorch_cpu and libc10: enough for every part of ddprun but the GPU backend
#   ddprun::torch_cuda  what the GPU backend adds: libtorch_cuda, NCCL's and CUDA's headers, all from wheels
if(NOT DDPRUN_TORCH_DIR)
  set(python ${DDPRUN_PYTHON})
  if(NOT python AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  elseif(NOT python)
    find_program(python python3)
  endif()
  execute_process(
    COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "No torch wheel in ${python}. Run tools/setup, or pass -DDDPRUN_TORCH_DIR=<site-packages>/torch.")
  endif()
  set(DDPRUN_TORCH_DIR ${torch_dir} CACHE PATH "The torch wheel's folder" FORCE)
endif()

file(STRINGS ${DDPRUN_TORCH_DIR}/version.py version_lines REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" DDPRUN_TORCH_VERSION "${version_lines}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" DDPRUN_TORCH_MINOR "${DDPRUN_TORCH_VERSION}")  # for which LibTorch's C++ ABI lasts
set(supported 2.11 2.14 2.15)
if(NOT DDPRUN_TORCH_MINOR IN_LIST supported)
  list(JOIN supported ", " supported)
  message(FATAL_ERROR "LibTorch ${DDPRUN_TORCH_VERSION} in ${DDPRUN_TORCH_DIR}: this version of ddprun is written for ${supported}.")
endif()
message(STATUS "LibTorch ${DDPRUN_TORCH_VERSION}: ${DDPRUN_TORCH_DIR}")

function(ddprun_import_library target file)
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${file})
endfunction()

ddprun_import_library(ddprun_c10 ${DDPRUN_TORCH_DIR}/lib/libc10.so)
ddprun_import_library(ddprun_torch_cpu ${DDPRUN_TORCH_DIR}/lib/libtorch_cpu.so)
add_library(ddprun_torch INTERFACE)
add_library(ddprun::torch ALIAS ddprun_torch)
target_include_directories(ddprun_torch SYSTEM INTERFACE
  ${DDPRUN_TORCH_DIR}/include ${DDPRUN_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(ddprun_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_compile_features(ddprun_torch INTERFACE cxx_std_20)
target_link_libraries(ddprun_torch INTERFACE ddprun_torch_cpu ddprun_c10)
target_link_options(ddprun_torch INTERFACE -Wl,-rpath-link,${DDPRUN_TORCH_DIR}/lib)

if(DDPRUN_CUDA)
  cmake_path(GET DDPRUN_TORCH_DIR PARENT_PATH site_packages)
  ddprun_import_library(ddprun_libtorch_cuda ${DDPRUN_TORCH_DIR}/lib/libtorch_cuda.so)
  ddprun_import_library(ddprun_libc10_cuda ${DDPRUN_TORCH_DIR}/lib/libc10_cuda.so)
  set(DDPRUN_CUDA_LIBRARY_DIR ${site_packages}/nvidia/cu13/lib)
  set(DDPRUN_CUDA_INCLUDE_DIR ${site_packages}/nvidia/cu13/include)
  ddprun_import_library(ddprun_libcudart ${DDPRUN_CUDA_LIBRARY_DIR}/libcudart.so.13)
  add_library(ddprun_torch_cuda INTERFACE)
  add_library(ddprun::torch_cuda ALIAS ddprun_torch_cuda)
  target_include_directories(ddprun_torch_cuda SYSTEM INTERFACE
    ${site_packages}/nvidia/nccl/include ${DDPRUN_CUDA_INCLUDE_DIR})
  target_compile_definitions(ddprun_torch_cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(ddprun_torch_cuda INTERFACE
    ddprun::torch -Wl,--no-as-needed ddprun_libtorch_cuda ddprun_libc10_cuda ddprun_libcudart)
endif()
