# SPDX-License-Identifier: Apache-2.0
# What the system must have. A missing package is named as Debian names it, all of them in one message.

set(penstock_missing "")
set(Threads_PREFER_PTHREAD_FLAG ON)
set(CMAKE_THREAD_PREFER_PTHREAD ON)
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
if(NOT PkgConfig_FOUND)
  list(APPEND penstock_missing pkg-config)
endif()

# Makes PkgConfig::<name>.
macro(penstock_pkg_config name module debian_package)
  if(PkgConfig_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  endif()
  if(NOT ${name}_FOUND)
    list(APPEND penstock_missing ${debian_package})
  endif()
endmacro()

macro(penstock_package name debian_package)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    list(APPEND penstock_missing ${debian_package})
  endif()
endmacro()

penstock_pkg_config(uring liburing liburing-dev)
penstock_pkg_config(systemd libsystemd libsystemd-dev)
penstock_pkg_config(bpf libbpf libbpf-dev)
penstock_package(fmt libfmt-dev CONFIG)
penstock_package(spdlog libspdlog-dev CONFIG)
penstock_package(simdjson libsimdjson-dev CONFIG)
penstock_package(tomlplusplus libtomlplusplus-dev CONFIG)
penstock_package(CLI11 libcli11-dev CONFIG)
penstock_package(nlohmann_json nlohmann-json3-dev CONFIG)
penstock_package(prometheus-cpp prometheus-cpp-dev CONFIG)
penstock_package(Boost libboost1.81-dev 1.81 CONFIG)
penstock_package(tl-expected libexpected-dev CONFIG)
penstock_package(OpenSSL libssl-dev)
penstock_package(GTest libgtest-dev CONFIG)
penstock_package(benchmark libbenchmark-dev CONFIG)
if(GTest_FOUND AND NOT TARGET GTest::gmock)
  list(APPEND penstock_missing libgmock-dev)
endif()

if(penstock_missing)
  list(JOIN penstock_missing " " packages)
  message(FATAL_ERROR
    "These Debian packages are missing: ${packages}\n"
    "packaging/quickstart installs everything that is needed, or: apt-get install ${packages}")
endif()
