# SPDX-License-Identifier: Apache-2.0
# The functions that each module's CMakeLists.txt calls. DEPENDS names modules of this project by their
# short name (`base`), LINK names foreign targets (`PkgConfig::uring`).

define_property(GLOBAL PROPERTY PENSTOCK_PROBLEMS)
define_property(GLOBAL PROPERTY PENSTOCK_DEPENDENCIES)

function(penstock_add_if_present directory)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/CMakeLists.txt)
    add_subdirectory(${directory})
  endif()
endfunction()

# Sets `out` to those of the files that exist and records the others as problems.
function(penstock_existing out target)
  set(found "")
  foreach(file IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE path)
    get_source_file_property(generated ${path} GENERATED)
    if(EXISTS ${path} OR generated)
      list(APPEND found ${file})
    else()
      set_property(GLOBAL APPEND PROPERTY PENSTOCK_PROBLEMS "${target} lacks the file ${path}")
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# Common end of all targets: includes start at the root, dependencies by short name.
function(penstock_finish target visibility depends link unsanitized)
  target_include_directories(${target} ${visibility} ${PROJECT_SOURCE_DIR})
  foreach(module IN LISTS depends)
    target_link_libraries(${target} ${visibility} penstock_${module})
    set_property(GLOBAL APPEND PROPERTY PENSTOCK_DEPENDENCIES "${target}:${module}")
  endforeach()
  target_link_libraries(${target} ${visibility} ${link} Threads::Threads)
  if(unsanitized)
    set_source_files_properties(${unsanitized} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    if(penstock_sanitizers)
      set_source_files_properties(${unsanitized} PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
    endif()
  endif()
endfunction()

# penstock_library(NAME base SOURCES a.cpp DEPENDS core LINK PkgConfig::uring)
#   A static library penstock_<name>, alias penstock::<name>; without sources an interface library.
#   SHARED OUTPUT penstock   a shared library lib<OUTPUT>.so.0 instead, in build/<preset>/lib
#   PCH_ASIO                 links Boost.Asio and uses its precompiled header
#   UNSANITIZED b.cpp        files that are too costly to build with sanitizers
function(penstock_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SHARED;PCH_ASIO" "NAME;OUTPUT" "SOURCES;DEPENDS;LINK;UNSANITIZED")
  set(target penstock_${arg_NAME})
  penstock_existing(sources ${target} ${arg_SOURCES})
  list(FILTER sources EXCLUDE REGEX "\\.(h|hpp)$")
  if(NOT sources)
    add_library(${target} INTERFACE)
    penstock_finish(${target} INTERFACE "${arg_DEPENDS}" "${arg_LINK}" "")
  elseif(arg_SHARED)
    add_library(${target} SHARED ${sources})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_OUTPUT}
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    add_dependencies(programs ${target})
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
    penstock_finish(${target} PRIVATE "${arg_DEPENDS}" "${arg_LINK}" "${arg_UNSANITIZED}")
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
  else()
    add_library(${target} STATIC ${sources})
    penstock_finish(${target} PUBLIC "${arg_DEPENDS}" "${arg_LINK}" "${arg_UNSANITIZED}")
  endif()
  if(arg_PCH_ASIO AND sources)
    target_link_libraries(${target} PUBLIC penstock_asio)
    target_precompile_headers(${target} REUSE_FROM penstock_asio)
  endif()
  add_library(penstock::${arg_NAME} ALIAS ${target})
endfunction()

# penstock_program(NAME penstockd SOURCES main.cpp DEPENDS control LINK spdlog::spdlog)
#   An executable in build/<preset>/bin, or in DIRECTORY.
function(penstock_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "PCH_ASIO" "NAME;DIRECTORY" "SOURCES;DEPENDS;LINK;UNSANITIZED")
  penstock_existing(sources ${arg_NAME} ${arg_SOURCES})
  if(NOT sources)
    return()
  endif()
  # A library may have the same short name (`penstock`), so programs have a prefix of their own.
  set(target program_${arg_NAME})
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_NAME})
  if(arg_DIRECTORY)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${arg_DIRECTORY})
  else()
    add_dependencies(programs ${target})
  endif()
  if(arg_PCH_ASIO)
    target_link_libraries(${target} PRIVATE penstock_asio)
  endif()
  penstock_finish(${target} PRIVATE "${arg_DEPENDS}" "${arg_LINK}" "${arg_UNSANITIZED}")
endfunction()

# penstock_test(NAME unit_core SOURCES parser_test.cpp DEPENDS core support LINK fmt::fmt LABELS tsan)
#   A gtest executable with gtest's main, registered with ctest. The first word of its name is a label.
#   OWN_MAIN   the sources bring their own main;  SERIAL  nothing else runs beside it;  TIMEOUT seconds
#   PROGRAMS penstockd   programs of this project that it starts, built before it
function(penstock_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "PCH_ASIO;OWN_MAIN;SERIAL" "NAME;TIMEOUT"
    "SOURCES;DEPENDS;LINK;LABELS;UNSANITIZED;PROGRAMS;ENVIRONMENT;ARGUMENTS")
  penstock_existing(sources ${arg_NAME} ${arg_SOURCES})
  if(NOT sources)
    return()
  endif()
  add_executable(${arg_NAME} ${sources})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PENSTOCK_TEST_DIRECTORY})
  if(arg_OWN_MAIN)
    target_link_libraries(${arg_NAME} PRIVATE GTest::gtest)
  else()
    target_link_libraries(${arg_NAME} PRIVATE GTest::gtest GTest::gtest_main)
  endif()
  if(arg_PCH_ASIO)
    target_link_libraries(${arg_NAME} PRIVATE penstock_asio)
    target_precompile_headers(${arg_NAME} REUSE_FROM penstock_pch_gtest_asio)
  else()
    target_precompile_headers(${arg_NAME} REUSE_FROM penstock_pch_gtest)
  endif()
  penstock_finish(${arg_NAME} PRIVATE "${arg_DEPENDS}" "${arg_LINK}" "${arg_UNSANITIZED}")
  foreach(program IN LISTS arg_PROGRAMS)
    if(TARGET program_${program})
      add_dependencies(${arg_NAME} program_${program})
    else()
      set_property(GLOBAL APPEND PROPERTY PENSTOCK_PROBLEMS "${arg_NAME} lacks the program ${program}")
    endif()
  endforeach()

  string(REGEX MATCH "^[a-z0-9]+" label ${arg_NAME})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} ${arg_ARGUMENTS}
    --gtest_output=xml:${PENSTOCK_RESULT_DIRECTORY}/${arg_NAME}.xml)
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${label};${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
    RUN_SERIAL "${arg_SERIAL}" ENVIRONMENT
    "PENSTOCK_BUILD_DIR=${CMAKE_BINARY_DIR};PENSTOCK_SOURCE_DIR=${PROJECT_SOURCE_DIR};${arg_ENVIRONMENT}")
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${arg_NAME})
  endif()
endfunction()

# penstock_fuzz(NAME fuzz_safetensors SOURCES f.cpp DEPENDS core CORPUS corpus/safetensors)
#   The sources define LLVMFuzzerTestOneInput. With PENSTOCK_FUZZ the test searches for a fixed time;
#   otherwise a plain main replays the committed corpus, so that no build forgets what was found.
function(penstock_fuzz)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;CORPUS" "SOURCES;DEPENDS;LINK;OPTIONS")
  penstock_existing(sources ${arg_NAME} ${arg_SOURCES})
  if(NOT sources)
    return()
  endif()
  set(corpus "")
  if(arg_CORPUS AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
    set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
  endif()
  add_executable(${arg_NAME} ${sources})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PENSTOCK_TEST_DIRECTORY})
  penstock_finish(${arg_NAME} PRIVATE "${arg_DEPENDS}" "${arg_LINK}" "")
  add_dependencies(fuzz_tests ${arg_NAME})
  if(PENSTOCK_FUZZ)
    target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
    set(found ${CMAKE_BINARY_DIR}/fuzz/${arg_NAME})
    file(MAKE_DIRECTORY ${found})
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} -max_total_time=${PENSTOCK_FUZZ_SECONDS} -timeout=10
      -print_final_stats=1 -artifact_prefix=${found}- ${arg_OPTIONS} ${found} ${corpus})
  else()
    target_sources(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/cmake/fuzz_replay.cpp)
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} ${corpus})
  endif()
  set_tests_properties(${arg_NAME} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

# penstock_python_test(NAME tidy_checker FOLDER ${CMAKE_CURRENT_SOURCE_DIR} LABEL tidy)
#   The unittest files (*test*.py) of a folder; standard library only.
#   SECONDS  about what it takes: the longest start first, so that none is left to run alone
function(penstock_python_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;FOLDER;LABEL;SECONDS" "ENVIRONMENT")
  if(NOT arg_SECONDS)
    set(arg_SECONDS 10)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/packaging/checks/run_unittests.py
    ${arg_FOLDER} ${PENSTOCK_RESULT_DIRECTORY}/${arg_NAME}.xml)
  set_tests_properties(${arg_NAME} PROPERTIES LABELS ${arg_LABEL} TIMEOUT 900 COST ${arg_SECONDS} ENVIRONMENT
    "PENSTOCK_BUILD_DIR=${CMAKE_BINARY_DIR};PENSTOCK_SOURCE_DIR=${PROJECT_SOURCE_DIR};PYTHONDONTWRITEBYTECODE=1;PENSTOCK_SANITIZED=${PENSTOCK_SANITIZE};${arg_ENVIRONMENT}")
endfunction()

# Says what the modules name and the tree lacks.
function(penstock_check_tree)
  get_property(problems GLOBAL PROPERTY PENSTOCK_PROBLEMS)
  get_property(dependencies GLOBAL PROPERTY PENSTOCK_DEPENDENCIES)
  foreach(dependency IN LISTS dependencies)
    string(REPLACE ":" ";" pair ${dependency})
    list(GET pair 0 target)
    list(GET pair 1 module)
    if(NOT TARGET penstock_${module})
      list(APPEND problems "${target} lacks the module ${module}")
    endif()
  endforeach()
  if(problems)
    list(JOIN problems "\n  " text)
    if(PENSTOCK_PARTIAL)
      message(WARNING "The tree is incomplete:\n  ${text}")
    else()
      message(FATAL_ERROR "The tree is incomplete:\n  ${text}")
    endif()
  endif()
endfunction()

set(PENSTOCK_FUZZ_SECONDS 15 CACHE STRING "How long each fuzz target searches when ctest runs it")
# What a user runs and links, without the tests; the Python package adds itself.
add_custom_target(programs)
add_custom_target(tsan_tests)
add_custom_target(fuzz_tests)

# Precompiled headers. The compiler refuses one that was built with other flags, and executables (-fPIE)
# and libraries (-fPIC) differ: hence one for libraries with Asio and two for tests.
set(penstock_asio_headers
    <boost/asio/awaitable.hpp> <boost/asio/buffer.hpp> <boost/asio/co_spawn.hpp>
    <boost/asio/detached.hpp> <boost/asio/io_context.hpp> <boost/asio/generic/seq_packet_protocol.hpp>
    <boost/asio/posix/stream_descriptor.hpp> <boost/asio/post.hpp> <boost/asio/redirect_error.hpp>
    <boost/asio/signal_set.hpp> <boost/asio/steady_timer.hpp> <boost/asio/this_coro.hpp>
    <boost/asio/use_awaitable.hpp>)

# Asio's own code is compiled once, here, instead of in each file that includes it.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/asio.cpp
  CONTENT "#include <boost/asio/impl/src.hpp>\n" @ONLY)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/empty_main.cpp CONTENT "int main() { return 0; }\n" @ONLY)
add_library(penstock_asio STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/asio.cpp)
target_compile_definitions(penstock_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED
  $<$<IN_LIST:thread,${penstock_sanitizers}>:BOOST_ASIO_DISABLE_FENCED_BLOCK>)
target_link_libraries(penstock_asio PUBLIC Boost::headers Threads::Threads)
target_precompile_headers(penstock_asio PRIVATE ${penstock_asio_headers})

foreach(kind gtest gtest_asio)
  add_executable(penstock_pch_${kind} EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/empty_main.cpp)
  set_target_properties(penstock_pch_${kind} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(penstock_pch_${kind} PRIVATE GTest::gtest Threads::Threads)
  target_precompile_headers(penstock_pch_${kind} PRIVATE <gtest/gtest.h>)
endforeach()
target_link_libraries(penstock_pch_gtest_asio PRIVATE penstock_asio)
target_precompile_headers(penstock_pch_gtest_asio PRIVATE ${penstock_asio_headers})
