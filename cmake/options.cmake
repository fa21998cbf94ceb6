# Options, the C++ standard and the flags that every target of this project shares.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

option(SKEP_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(SKEP_BENCHMARKS "Build the benchmarks" OFF)
option(SKEP_WERROR "Treat warnings of this project's code as errors" OFF)
option(SKEP_LTO "Optimise the programs at link time" OFF)
option(SKEP_COVERAGE "Instrument for gcovr" OFF)
set(SKEP_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them: address,undefined or thread")
set(SKEP_PROGRAMS "all" CACHE STRING "Programs to build: all, or any of aggregator;client;faultproxy;simulator")

foreach(program IN LISTS SKEP_PROGRAMS)
  if(NOT program MATCHES "^(all|aggregator|client|faultproxy|simulator)$")
    message(FATAL_ERROR "SKEP_PROGRAMS has \"${program}\": give all, or any of aggregator;client;faultproxy;simulator")
  endif()
endforeach()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Floating-point results must not depend on how the compiler fuses operations.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")

if(SKEP_SANITIZE)
  add_compile_options(-fsanitize=${SKEP_SANITIZE} -O1 -g1 -fno-omit-frame-pointer)
  if(SKEP_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
  if(SKEP_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # Asio's fences
  endif()
  add_link_options(-fsanitize=${SKEP_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-g1)
endif()
if(SKEP_COVERAGE)
  add_compile_options(--coverage -O0)
  add_link_options(--coverage)
endif()

find_program(SKEP_CCACHE ccache)
if(SKEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${SKEP_CCACHE})
endif()

# Files that instantiate coroutines over TLS streams take up to 2 GB each to compile.
set_property(GLOBAL PROPERTY JOB_POOLS heavy=1)
