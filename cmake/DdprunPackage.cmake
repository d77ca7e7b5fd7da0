# Packages for Debian and Ubuntu, as tools/package makes them from any build:
#
#   ddprun       the program, its plugins, configurations and tools
#   ddprun-dev   what plugins are built with
#
# LibTorch is in neither: with NVIDIA's libraries it has 4 GB. The program looks for it in lib/ddprun/libtorch, which
# get_libtorch fills when the package is installed.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "ddprun's maintainers <maintainers@ddprun.invalid>" CACHE STRING "Of the packages")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ddprun)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "plugin-driven distributed training on LibTorch
Trains the model, dataset and optimizer that a YAML experiment names, with a
worker for each GPU, or on the CPU.

Its installation fetches LibTorch, about 2.3 GB, as pip is set to.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "python3 (>= 3.10), python3-pip, python3-venv, ca-certificates")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "ddprun-dev, python3-matplotlib")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)  # of all libraries that a package of the distribution has
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  ${PROJECT_BINARY_DIR}/lib ${DDPRUN_TORCH_DIR}/lib ${DDPRUN_CUDA_LIBRARY_DIR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/package/postinst ${CMAKE_CURRENT_LIST_DIR}/package/postrm)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME ddprun-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_DESCRIPTION "plugins for ddprun: headers, tests and templates
Models, datasets, optimizers, objectives, callbacks and loggers of one's own: `ddprun-new-plugin model
my_net` begins one, `ddprun --build my_net.cpp` compiles a single file.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "ddprun (= ${PROJECT_VERSION}), g++ (>= 4:12), cmake (>= 3.25), ninja-build, libgtest-dev")

# What get_libtorch fetches, and the terms: ours, and those of libraries whose code is compiled into the program.
install(PROGRAMS cmake/package/get_libtorch DESTINATION lib/ddprun)
install(FILES cmake/package/libtorch.txt DESTINATION lib/ddprun)
install(FILES cmake/package/copyright DESTINATION share/doc/ddprun)
install(FILES cmake/package/copyright DESTINATION share/doc/ddprun-dev COMPONENT dev)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/ddprun)
install(DIRECTORY docs DESTINATION share/doc/ddprun FILES_MATCHING PATTERN "*.md" PATTERN "*.ipynb" PATTERN "*.png")
foreach(package libcli11-dev libjs-dygraphs libspdlog-dev nlohmann-json3-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/ddprun/compiled_in RENAME ${package} OPTIONAL)
endforeach()

include(CPack)
