# Unpacks the goldens (tests/golden/pack.py) in place, where git ignores them: now, and whenever an archive has changed.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB archives CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/golden/*.tar ${PROJECT_SOURCE_DIR}/tests/*/golden/*.tar)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archives})
execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/golden/pack.py unpack COMMAND_ERROR_IS_FATAL ANY)
