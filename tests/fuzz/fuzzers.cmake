# A program of libFuzzer for each target, build/fuzz/fuzz/<target>. The readers alone are compiled for them, with what they call, so that all of it is
# watched and a build takes minutes. Only those that make tensors link LibTorch, whose loading costs each start a second.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  message(FATAL_ERROR "libFuzzer is a part of clang, and the compiler is ${CMAKE_CXX_COMPILER_ID}. "
    "Install clang and its libclang-rt, and configure with: cmake --preset fuzz")
endif()
set(tensor_targets csv exported manifest npy safetensors shard)

foreach(module base config launch)
  get_target_property(files ddprun_${module} SOURCES)
  list(FILTER files INCLUDE REGEX "^[a-z0-9_]+\\.cpp$")
  list(TRANSFORM files PREPEND ${module}/)
  list(APPEND runner_files ${files})
endforeach()
get_target_property(section_files ddprun_feature_sections SOURCES)  # whole paths
list(APPEND runner_files
  cluster/endpoint.cpp cluster/setting.cpp cluster/slurm.cpp
  plugin_host/plugin_file.cpp
  rendezvous/key_values.cpp rendezvous/message.cpp rendezvous/node_messages.cpp
  runs/config_lines.cpp runs/curves.cpp runs/event_list.cpp runs/json_lines.cpp runs/lr_suggestion.cpp
  report/page.cpp report/report.cpp runs/run_state.cpp runs/table_index.cpp report/tables.cpp)
list(TRANSFORM runner_files PREPEND ${PROJECT_SOURCE_DIR}/runner/)

set(plugin_files
  datasets/cifar/cifar_files.cpp datasets/cifar/python_pickle.cpp
  datasets/image_folder/encoded_picture.cpp datasets/image_folder/exif.cpp datasets/image_folder/image_file.cpp datasets/image_folder/jpeg_image.cpp datasets/image_folder/pixels.cpp
  datasets/image_folder/png_image.cpp datasets/image_folder/webp_image.cpp
  datasets/mnist/idx_file.cpp
  datasets/tensors/npy_header.cpp
  datasets/text/token_file.cpp)
list(TRANSFORM plugin_files PREPEND ${PROJECT_SOURCE_DIR}/plugins/)

set(tensor_files
  plugins/datasets/image_folder/csv_list.cpp plugins/datasets/image_folder/sample_list.cpp plugins/datasets/image_folder/shard.cpp
  plugins/datasets/image_folder/shard_index.cpp plugins/datasets/image_folder/shard_members.cpp
  plugins/datasets/tensors/npy_file.cpp plugins/datasets/tensors/safetensors_file.cpp plugins/datasets/tensors/stored_array.cpp
  plugins/models/exported/graph.cpp plugins/models/exported/graph_reader.cpp
  plugins/models/exported/program.cpp plugins/models/exported/program_file.cpp plugins/models/exported/recorder.cpp plugins/models/exported/size_functions.cpp
  runner/checkpoint/checkpoint.cpp
  sdk/src/batch.cpp sdk/src/folds.cpp sdk/src/random.cpp sdk/src/files/safetensors.cpp sdk/src/files/safetensors_header.cpp)
list(TRANSFORM tensor_files PREPEND ${PROJECT_SOURCE_DIR}/)

set(sdk_files
  formats/picture_files.cpp formats/shown_text.cpp formats/strict_json.cpp src/download/gzip_file.cpp src/error.cpp src/files/digest.cpp src/files/files.cpp
  src/nearest_name.cpp src/options.cpp src/value.cpp)
list(TRANSFORM sdk_files PREPEND ${PROJECT_SOURCE_DIR}/sdk/)

add_library(fuzz_readers STATIC fuzz_target.cpp $<TARGET_OBJECTS:ddprun_log> ${runner_files} ${section_files} ${plugin_files} ${sdk_files})
target_include_directories(fuzz_readers PUBLIC
  ${PROJECT_SOURCE_DIR}/runner ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/sdk/formats ${PROJECT_SOURCE_DIR}/sdk/src/download
  ${PROJECT_SOURCE_DIR}/sdk/include ${PROJECT_BINARY_DIR}/include)
foreach(folder datasets datasets/cifar datasets/image_folder datasets/mnist datasets/tensors datasets/text)
  target_include_directories(fuzz_readers PUBLIC ${PROJECT_SOURCE_DIR}/plugins/${folder})
endforeach()
target_include_directories(fuzz_readers SYSTEM PUBLIC
  ${DDPRUN_LIBARCHIVE_INCLUDE} ${DDPRUN_WEBP_INCLUDE} $<TARGET_PROPERTY:ddprun_torch,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(fuzz_readers PUBLIC DDPRUN_FUZZER DDPRUN_CONFIGS="${PROJECT_SOURCE_DIR}/configs")
target_link_libraries(fuzz_readers
  PUBLIC
    CURL::libcurl JPEG::JPEG OpenSSL::Crypto PNG::PNG ZLIB::ZLIB nlohmann_json::nlohmann_json yaml-cpp ${DDPRUN_LIBARCHIVE} ${DDPRUN_WEBP} ${DDPRUN_WEBP_DEMUX}
  PRIVATE spdlog::spdlog ddprun_warnings)

add_library(fuzz_tensor_readers STATIC ${tensor_files})
target_include_directories(fuzz_tensor_readers PUBLIC ${PROJECT_SOURCE_DIR}/plugins/models/exported)
# LibTorch does not export the type information that vptr asks for.
target_compile_options(fuzz_tensor_readers PRIVATE -fno-sanitize=vptr)
target_link_libraries(fuzz_tensor_readers PUBLIC fuzz_readers ddprun::torch PRIVATE ddprun_warnings)

foreach(target ${targets})
  add_executable(fuzz_${target} ${target}.cpp)
  set(readers fuzz_readers)
  if(target IN_LIST tensor_targets)
    set(readers fuzz_tensor_readers)
  endif()
  target_link_libraries(fuzz_${target} PRIVATE ${readers} ddprun_warnings)
  target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer -Wl,--as-needed)
  set_target_properties(fuzz_${target} PROPERTIES OUTPUT_NAME ${target} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  list(APPEND programs fuzz_${target})
endforeach()
add_custom_target(fuzzers DEPENDS ${programs})
