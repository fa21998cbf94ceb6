# Targets that look at the source instead of building it.

add_custom_target(format
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/format
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
add_custom_target(format-check
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/format --check
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
