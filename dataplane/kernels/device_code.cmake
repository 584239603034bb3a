# SPDX-License-Identifier: Apache-2.0
# Compiles device_kernels.cu for every architecture that some installed compiler knows, and writes the source file
# that embeds the results and lists what is there and what is missing. No compiler is required.

# Sanitizers do not reach device code, and its compilers are slow: builds with them do without.
set(kernels_wanted ON)
if(PENSTOCK_SANITIZE OR PENSTOCK_FUZZ)
  set(kernels_wanted OFF)
endif()
option(PENSTOCK_DEVICE_CODE "Build the device code with the nvcc and clang that are found" ${kernels_wanted})
set(penstock_cuda_architectures 75 80 86 89 90 100 120)
set(penstock_hip_architectures gfx90a gfx942 gfx1030 gfx1100 gfx1201)

set(kernels_source ${CMAKE_CURRENT_SOURCE_DIR}/device_kernels.cu)
set(kernels_inputs ${kernels_source} ${CMAKE_CURRENT_SOURCE_DIR}/kernel_arguments.hpp)
set(kernels_folder ${CMAKE_BINARY_DIR}/generated/device_code)
set(kernels_trial ${kernels_folder}/trial.cu)
set(kernels_embedding "")
set(kernels_entries "")
set(kernels_images "")
file(MAKE_DIRECTORY ${kernels_folder})
file(CONFIGURE OUTPUT ${kernels_trial} CONTENT "extern \"C\" __attribute__((global)) void trial(int* at) { *at = 1; }\n" @ONLY)

# No contraction, no flushing of small numbers: the reference has neither.
set(nvcc_flags -std=c++17 -O3 -fmad=false -ftz=false -fatbin)
set(hip_flags -std=c++17 -O3 -ffp-contract=off -fno-gpu-flush-denormals-to-zero -x hip --cuda-device-only -nogpuinc
  -nogpulib)

macro(kernels_entry architecture missing)
  string(APPEND kernels_entries "    {\"${architecture}\", \"${missing}\"},\n")
  if("${missing}" STREQUAL "")
    list(APPEND kernels_built ${architecture})
  endif()
endmacro()

# Symbols `name` and `name`_end around the bytes of `file`.
macro(kernels_embed name file)
  string(APPEND kernels_embedding
    "__asm__(\".section .rodata\\n.balign 64\\n.globl ${name}\\n.hidden ${name}\\n${name}:\\n\"\n"
    "        \".incbin \\\"${file}\\\"\\n.globl ${name}_end\\n.hidden ${name}_end\\n${name}_end:\\n.byte 0\\n.text\\n\");\n"
    "extern \"C\" const std::byte ${name}[], ${name}_end[];\n")
endmacro()

# Sets `out` to the architectures that nvcc can really build for; in the cache, because it takes seconds to find out.
function(kernels_try_nvcc out)
  if(NOT PENSTOCK_DEVICE_CODE)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  find_program(PENSTOCK_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(NOT DEFINED PENSTOCK_NVCC_ARCHITECTURES)
    set(works "")
    if(PENSTOCK_NVCC)
      execute_process(COMMAND ${PENSTOCK_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
      execute_process(COMMAND ${PENSTOCK_NVCC} ${nvcc_flags} ${kernels_trial} -o ${kernels_trial}.fatbin
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      foreach(architecture IN LISTS penstock_cuda_architectures)
        if(failed EQUAL 0 AND known MATCHES "compute_${architecture}[^0-9]")
          list(APPEND works ${architecture})
        endif()
      endforeach()
    endif()
    set(PENSTOCK_NVCC_ARCHITECTURES "${works}" CACHE STRING "What nvcc builds device code for")
  endif()
  set(${out} "${PENSTOCK_NVCC_ARCHITECTURES}" PARENT_SCOPE)
endfunction()

# From the newest on.
set(kernels_clangs /opt/rocm/llvm/bin/clang++ amdclang++ clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15
  clang++-14 clang++)
# What none of the clangs could build for is tried again when others are there.
set(clangs_found "")
foreach(name IN LISTS kernels_clangs)
  find_program(candidate ${name} NO_CACHE)
  if(candidate)
    list(APPEND clangs_found ${candidate})
  endif()
  unset(candidate)
endforeach()
if(NOT "${clangs_found}" STREQUAL "${PENSTOCK_CLANGS_FOUND}")
  foreach(architecture IN LISTS penstock_hip_architectures)
    if("${PENSTOCK_CLANG_FOR_${architecture}}" STREQUAL "")
      unset(PENSTOCK_CLANG_FOR_${architecture} CACHE)
    endif()
  endforeach()
  set(PENSTOCK_CLANGS_FOUND "${clangs_found}" CACHE INTERNAL "The clangs that device code was tried with")
endif()

# Sets `out` to the first clang that builds for the architecture, with an option that it needs, or to "". The bare code
# object is wanted, which needs no bundler; a compiler that makes bundles only will do, since drivers take both.
function(kernels_try_clang architecture out)
  if(NOT PENSTOCK_DEVICE_CODE)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  set(cached PENSTOCK_CLANG_FOR_${architecture})
  if(NOT DEFINED ${cached})
    set(works "")
    foreach(name IN LISTS kernels_clangs)
      find_program(candidate ${name} NO_CACHE)
      foreach(option --no-gpu-bundle-output "")
        if(candidate AND NOT works)
          execute_process(COMMAND ${candidate} ${option} ${hip_flags} --offload-arch=${architecture}
            ${kernels_trial} -o ${kernels_trial}.hsaco RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
          if(failed EQUAL 0)
            set(works ${candidate} ${option})
          endif()
        endif()
      endforeach()
      unset(candidate)
    endforeach()
    set(${cached} "${works}" CACHE STRING "The clang that builds device code for ${architecture}")
  endif()
  set(${out} "${${cached}}" PARENT_SCOPE)
endfunction()

set(kernels_built "")
kernels_try_nvcc(cuda_works)
set(gencode "")
foreach(architecture IN LISTS penstock_cuda_architectures)
  if(architecture IN_LIST cuda_works)
    list(APPEND gencode -gencode arch=compute_${architecture},code=sm_${architecture})
    kernels_entry(sm_${architecture} "")
  elseif(cuda_works)
    kernels_entry(sm_${architecture} "the nvcc of this build does not know it")
  else()
    kernels_entry(sm_${architecture} "built without nvcc")
  endif()
endforeach()
if(cuda_works)
  list(GET cuda_works 0 oldest)
  kernels_entry(compute_${oldest} "")
  set(image ${kernels_folder}/cuda.fatbin)
  add_custom_command(OUTPUT ${image} DEPENDS ${kernels_inputs} COMMENT "Device code for NVIDIA" VERBATIM
    COMMAND ${PENSTOCK_NVCC} ${nvcc_flags} ${gencode} -gencode arch=compute_${oldest},code=compute_${oldest}
      -I${PROJECT_SOURCE_DIR} ${kernels_source} -o ${image})
  list(APPEND kernels_images ${image})
  kernels_embed(penstock_code_cuda ${image})
  set(kernels_cuda "{penstock_code_cuda, penstock_code_cuda_end}")
else()
  set(kernels_cuda "{}")
endif()

set(kernels_hip "")
foreach(architecture IN LISTS penstock_hip_architectures)
  kernels_try_clang(${architecture} clang)
  if(clang)
    kernels_entry(${architecture} "")
    set(image ${kernels_folder}/${architecture}.hsaco)
    add_custom_command(OUTPUT ${image} DEPENDS ${kernels_inputs} COMMENT "Device code for ${architecture}" VERBATIM
      COMMAND ${clang} ${hip_flags} --offload-arch=${architecture} -I${PROJECT_SOURCE_DIR} ${kernels_source} -o ${image})
    list(APPEND kernels_images ${image})
    kernels_embed(penstock_code_${architecture} ${image})
    string(APPEND kernels_hip "    {\"${architecture}\", {penstock_code_${architecture}, penstock_code_${architecture}_end}},\n")
  else()
    kernels_entry(${architecture} "built without a clang that knows it")
  endif()
endforeach()

if(kernels_built)
  list(JOIN kernels_built " " built)
else()
  set(built "none")
endif()
message(STATUS "Device code: ${built}")
set(kernels_data ${kernels_folder}/device_code_data.cpp)
file(CONFIGURE OUTPUT ${kernels_data} CONTENT [[
// SPDX-License-Identifier: Apache-2.0
// Written by device_code.cmake.
#include "dataplane/kernels/embedded_code.hpp"

@kernels_embedding@
namespace penstock {
namespace {

constexpr DeviceCodeEntry entries[] = {
@kernels_entries@};
const EmbeddedCode hip_images[] = {
@kernels_hip@    {"", {}}};

}  // namespace

std::span<const DeviceCodeEntry> embedded_entries() { return entries; }
std::span<const std::byte> embedded_cuda() { return @kernels_cuda@; }
std::span<const EmbeddedCode> embedded_hip() { return hip_images; }

}  // namespace penstock
]] @ONLY)
set_source_files_properties(${kernels_data} PROPERTIES OBJECT_DEPENDS "${kernels_images}")
