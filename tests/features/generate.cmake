# cmake -D "kept=<feature>;..." -D folder=<folder> -P generate.cmake: writes what the build generates for these features.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../runner/features/list.cmake)
ddprun_generate_features(${folder} ${kept})
