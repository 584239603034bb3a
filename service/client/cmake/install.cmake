# SPDX-License-Identifier: Apache-2.0
# What is installed of the client: library, header, pkg-config file, CMake package, Python package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS penstock_client
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/include/penstock.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/penstock-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/penstock-config.cmake INSTALL_DESTINATION ${package_directory}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/penstock-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstock-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/penstock-config-version.cmake
  DESTINATION ${package_directory} COMPONENT development)

configure_file(${CMAKE_CURRENT_LIST_DIR}/penstock.pc.in ${CMAKE_CURRENT_BINARY_DIR}/penstock.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstock.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# Where Debian's interpreter looks.
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/python/penstock DESTINATION lib/python3/dist-packages
  COMPONENT python FILES_MATCHING PATTERN *.py PATTERN py.typed)
