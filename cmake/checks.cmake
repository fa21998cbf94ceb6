# Targets that look at the source instead of building it.

add_custom_target(format
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/format
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
add_custom_target(format-check
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/format --check
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
add_custom_target(layers
    COMMAND python3 tests/lint/layers.py .
    COMMAND python3 tests/lint/error_numbers.py .
    COMMAND python3 tests/lint/commands.py .
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)

# clang-tidy on all sources, or on those changed against SKEP_TIDY_BASE. Of the build it needs only the generated headers.
set(SKEP_TIDY_BASE "" CACHE STRING "A commit: tidy looks only at what changed since")
add_custom_target(tidy
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/tidy --build ${CMAKE_BINARY_DIR} --base "${SKEP_TIDY_BASE}"
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} USES_TERMINAL VERBATIM)
if(TARGET skep_wire)
  add_dependencies(tidy skep_wire)
endif()

if(SKEP_COVERAGE)
  add_custom_target(coverage
      COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${CMAKE_BINARY_DIR} --output-on-failure
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/coverage
      COMMAND gcovr --root . --filter "(shared|crypto|kernels|client|aggregator|simulator)/" --exclude-throw-branches
          --html-details ${CMAKE_BINARY_DIR}/coverage/index.html --txt=- ${CMAKE_BINARY_DIR}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} USES_TERMINAL VERBATIM)
endif()
