# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, optimisation, hardening, sanitizers, compiler cache, output folders.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# libpenstock.so links some of the static libraries.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# The library exports what its header marks, and nothing by accident.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
include(CheckPIESupported)
check_pie_supported()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_DEBUG "-O1 -g1")
  set(CMAKE_${language}_FLAGS_RELEASE
      "-O2 -g1 -DNDEBUG -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    string(APPEND CMAKE_${language}_FLAGS_RELEASE " -fcf-protection")
  endif()
endforeach()
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_RELEASE "-Wl,-z,relro,-z,now")
endforeach()

add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
add_compile_definitions(_GNU_SOURCE _FILE_OFFSET_BITS=64)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# Debug information and messages name files from the root of the tree, wherever it was cloned
# (the compiler cache makes paths relative to build/<preset>).
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=../../=)

string(REPLACE "," ";" penstock_sanitizers "${PENSTOCK_SANITIZE}")
if(PENSTOCK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PENSTOCK_FUZZ needs clang: use the preset `fuzz`")
  endif()
  list(APPEND penstock_sanitizers fuzzer-no-link)
endif()
if(penstock_sanitizers)
  list(REMOVE_DUPLICATES penstock_sanitizers)
  list(JOIN penstock_sanitizers "," names)
  add_compile_options(-fsanitize=${names} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${names})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # clang 14 can't assemble a coroutine with this check's prologue.
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  # A time in the precompiled header would make each of them a new input for the compiler cache.
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()

find_program(PENSTOCK_CCACHE ccache)
if(PENSTOCK_CCACHE)
  # Relative paths and the sloppiness that precompiled headers need make the hits survive another clone.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${PENSTOCK_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archives)
set(PENSTOCK_PYTHON_DIRECTORY ${CMAKE_BINARY_DIR}/python)
set(PENSTOCK_TEST_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
set(PENSTOCK_RESULT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/results)
