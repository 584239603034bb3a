# SPDX-License-Identifier: Apache-2.0
# Compiles BPF programs into a libbpf skeleton. Without clang or bpftool the build goes on without them.

option(PENSTOCK_BPF "Build the BPF programs, where clang and bpftool are installed" ON)
find_program(PENSTOCK_BPF_CLANG NAMES clang-14 clang clang-19 clang-18 clang-17 clang-16 clang-15)
find_program(PENSTOCK_BPFTOOL bpftool PATHS /usr/sbin /sbin)

# penstock_bpf_skeleton(probes kernel/probes.bpf.c INCLUDES kernel/maps.h)
#   Makes <build>/generated/bpf/<name>.skel.h; sets PENSTOCK_BPF_BUILT to whether there will be one.
function(penstock_bpf_skeleton name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "INCLUDES")
  set(PENSTOCK_BPF_BUILT OFF PARENT_SCOPE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(architecture x86)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(architecture arm64)
  else()
    return()
  endif()
  if(NOT PENSTOCK_BPF OR NOT PENSTOCK_BPF_CLANG OR NOT PENSTOCK_BPFTOOL)
    message(STATUS "BPF programs: not built (clang or bpftool is missing, or PENSTOCK_BPF is off)")
    return()
  endif()
  set(folder ${CMAKE_BINARY_DIR}/generated/bpf)
  set(skeleton ${folder}/${name}.skel.h)
  file(MAKE_DIRECTORY ${folder})
  # `gen object` also drops what a linked object does not need.
  add_custom_command(OUTPUT ${skeleton}
    COMMAND ${PENSTOCK_BPF_CLANG} -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror -target bpf -mcpu=v3
      -D__TARGET_ARCH_${architecture} -I${PROJECT_SOURCE_DIR} -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
      -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${folder}/${name}.o
    COMMAND ${PENSTOCK_BPFTOOL} gen object ${folder}/${name}.bpf.o ${folder}/${name}.o
    COMMAND ${PENSTOCK_BPFTOOL} gen skeleton ${folder}/${name}.bpf.o name ${name} > ${skeleton}
    DEPENDS ${source} ${arg_INCLUDES} VERBATIM)
  set(PENSTOCK_BPF_BUILT ON PARENT_SCOPE)
endfunction()
