# Whether and how device code is built. SKEP_HAS_CUDA is ON where libskep-cuda.so is.

set(SKEP_CUDA "AUTO" CACHE STRING "Device code: OFF, ON (an error without the toolkit), AUTO (where the toolkit is)")
set_property(CACHE SKEP_CUDA PROPERTY STRINGS OFF ON AUTO)
set(SKEP_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "As CMAKE_CUDA_ARCHITECTURES; 90 is machine code and PTX for later devices")
if(NOT SKEP_CUDA MATCHES "^(OFF|ON|AUTO)$")
  message(FATAL_ERROR "SKEP_CUDA is \"${SKEP_CUDA}\": give OFF, ON or AUTO")
endif()

set(SKEP_HAS_CUDA OFF)
if(NOT SKEP_CUDA STREQUAL "OFF")
  # check_language looks at PATH and the environment only, and a NOTFOUND in the cache sticks.
  if(CUDAToolkit_ROOT)  # who names a toolkit means no other
    find_program(SKEP_NVCC nvcc PATHS ${CUDAToolkit_ROOT}/bin NO_DEFAULT_PATH)
  else()
    find_program(SKEP_NVCC nvcc HINTS ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
  endif()
  if(CMAKE_CUDA_COMPILER STREQUAL "NOTFOUND" OR CMAKE_CUDA_COMPILER STREQUAL "CMAKE_CUDA_COMPILER-NOTFOUND")
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  if(SKEP_NVCC)
    set(ENV{CUDACXX} ${SKEP_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${SKEP_CUDA_ARCHITECTURES})
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      # CMake 3.25 does not know how this compiler is told the standard.
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
      endif()
      find_package(CUDAToolkit 12.0)
      if(CUDAToolkit_FOUND)
        set(SKEP_HAS_CUDA ON)
      endif()
    endif()
  endif()
  if(SKEP_CUDA STREQUAL "ON" AND NOT SKEP_HAS_CUDA)
    message(FATAL_ERROR "SKEP_CUDA is ON, but there is no CUDA Toolkit of version 12 or later: set CUDAToolkit_ROOT or CUDA_PATH, "
        "or build without it (SKEP_CUDA=OFF)")
  endif()
endif()
if(SKEP_HAS_CUDA)
  message(STATUS "Device code: CUDA Toolkit ${CUDAToolkit_VERSION}, architectures ${SKEP_CUDA_ARCHITECTURES}")
elseif(SKEP_CUDA STREQUAL "OFF")
  message(STATUS "Device code: none (SKEP_CUDA is OFF); programs train on the CPU")
else()
  message(STATUS "Device code: none (SKEP_CUDA is AUTO, and there is no CUDA Toolkit of version 12 or later); programs train on the CPU")
endif()

# libskep-cuda.so: beside the programs, loaded by them at run time. What ptxas says about its kernels is kept in
# ptxas-TARGET.log for tests/lint/ptxas.py.
function(skep_cuda_target name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>"
      "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${SKEP_WERROR}>>:-Werror>")
  set_target_properties(${name} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_SEPARABLE_COMPILATION OFF CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY Static)
  target_compile_definitions(${name} PRIVATE SKEP_VERSION="${PROJECT_VERSION}")
  # Equal results on the CPU and on a device want no fused multiply-add but those that are written.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Xptxas=-v>")
  set_target_properties(${name} PROPERTIES
      RULE_LAUNCH_COMPILE "${PROJECT_SOURCE_DIR}/cmake/keep_log.sh ${CMAKE_BINARY_DIR}/ptxas-${name}.log")
  target_link_libraries(${name} PRIVATE CUDA::cudart_static CUDA::cublas)
endfunction()

# What the library is made of, beside it: evidence from a device names it (scripts/gpu_check).
function(skep_cuda_note_sources name)
  add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${PROJECT_SOURCE_DIR}/scripts/gpu_check --sources ${CMAKE_BINARY_DIR}/bin/gpu-sources.json VERBATIM)
endfunction()
