# skep_library, skep_program, skep_test: a folder's CMakeLists.txt is a list of files.

# The programs that SKEP_PROGRAMS selects.
add_custom_target(programs)

# Warnings and errors of this project's own code; third-party headers come in as SYSTEM.
function(skep_own_target name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False positives once the standard library is inlined: "x" + std::string, vector::insert. The linker option is for LTO.
    target_compile_options(${name} PRIVATE -Wno-restrict -Wno-stringop-overflow)
    target_link_options(${name} PRIVATE -Wno-stringop-overflow)
  endif()
  if(SKEP_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
endfunction()

# skep_library(kernels SOURCES a.cc DEPENDS base PUBLIC_LINK lib PRIVATE_LINK lib EDGE edge.cc)
# DEPENDS names other libraries of this project, without the prefix. EDGE lists the few files that include Asio:
# they are compiled one at a time, and without optimisation under sanitizers (memory and minutes).
function(skep_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;EDGE;DEPENDS;PUBLIC_LINK;PRIVATE_LINK" ${ARGN})
  add_library(skep_${name} STATIC ${arg_SOURCES} ${arg_EDGE})
  skep_own_target(skep_${name})
  list(TRANSFORM arg_DEPENDS PREPEND skep_)
  target_link_libraries(skep_${name} PUBLIC ${arg_DEPENDS} ${arg_PUBLIC_LINK} PRIVATE ${arg_PRIVATE_LINK})
  skep_edge_sources(skep_${name} "${arg_EDGE}")
  if(SKEP_LTO)
    set_target_properties(skep_${name} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
  endif()
  if(NOT SKEP_PROGRAMS STREQUAL "all")
    set_target_properties(skep_${name} PROPERTIES EXCLUDE_FROM_ALL ON)  # only what a program needs
  endif()
endfunction()

function(skep_edge_sources target files)
  if(files)
    set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE heavy)
    if(SKEP_SANITIZE)
      set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS -O0)
    elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # A false positive once Asio's frames of coroutines are inlined.
      set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS -Wno-mismatched-new-delete)
    endif()
  endif()
endfunction()

# skep_program(skep-simulator SOURCES main.cc DEPENDS simulator)
function(skep_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;EDGE;DEPENDS;PRIVATE_LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES} ${arg_EDGE})
  skep_own_target(${name})
  list(TRANSFORM arg_DEPENDS PREPEND skep_)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} ${arg_PRIVATE_LINK})
  target_compile_definitions(${name} PRIVATE SKEP_VERSION="${PROJECT_VERSION}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  if(SKEP_LTO)
    set_target_properties(${name} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
  endif()
  skep_edge_sources(${name} "${arg_EDGE}")
  string(REGEX REPLACE "^skep-" "" role ${name})
  if(SKEP_PROGRAMS STREQUAL "all" OR role IN_LIST SKEP_PROGRAMS)
    add_dependencies(programs ${name})
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# skep_test(kernels_test LABELS unit SOURCES a_test.cc DEPENDS kernels): one ctest entry; exit 77 is SKIPPED.
# PROGRAMS names programs that the test starts: they are built before it, as SKEP_BINARY_DIR "/bin/NAME".
function(skep_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;EDGE;DEPENDS;PRIVATE_LINK;ENVIRONMENT;PROGRAMS" ${ARGN})
  if(SKEP_SANITIZE MATCHES "thread" AND NOT "${arg_LABELS}" MATCHES "unit|contract|parity")
    return()  # the preset does not run it (docs/testing.md): its build is saved
  endif()
  add_executable(${name} ${arg_SOURCES} ${arg_EDGE} $<TARGET_OBJECTS:skep_test_main>)
  skep_own_target(${name})
  list(TRANSFORM arg_DEPENDS PREPEND skep_)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} ${arg_PRIVATE_LINK})
  target_compile_definitions(${name} PRIVATE CATCH_CONFIG_FAST_COMPILE SKEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
      SKEP_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(arg_PROGRAMS)
    add_dependencies(${name} ${arg_PROGRAMS})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # bounds a hang; slow machines and sanitizers are no failure
  endif()
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/cmake/run_test.sh "${SKEP_SANITIZE}" $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "${arg_ENVIRONMENT}")
  skep_edge_sources(${name} "${arg_EDGE}")
endfunction()
