# Goldens: the target qkv_goldens unpacks tests/golden/*.tar and tests/*/golden/*.tar (tests/golden/pack.py writes them)
# into QKV_GOLDENS_DIR, each at the path that it has in the source tree. All anew when one of them changes, so that
# nothing is left of what an archive no longer holds.

# As a script: cmake -D SOURCE=source -D FOLDER=goldens -D STAMP=file -P cmake/Goldens.cmake archive...
if(CMAKE_SCRIPT_MODE_FILE)
  file(REMOVE_RECURSE ${FOLDER})
  file(GLOB archives RELATIVE ${SOURCE} ${SOURCE}/tests/golden/*.tar ${SOURCE}/tests/*/golden/*.tar)
  foreach(archive ${archives})
    cmake_path(GET archive PARENT_PATH place)
    file(ARCHIVE_EXTRACT INPUT ${SOURCE}/${archive} DESTINATION ${FOLDER}/${place} TOUCH)
  endforeach()
  file(TOUCH ${STAMP})
  return()
endif()

set(QKV_GOLDENS_DIR ${PROJECT_BINARY_DIR}/goldens)
file(GLOB archives CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/golden/*.tar ${PROJECT_SOURCE_DIR}/tests/*/golden/*.tar)
# Without one that is removed the list, which is a part of the file's name, is another.
string(MD5 list "${archives}")
set(stamp ${PROJECT_BINARY_DIR}/goldens.${list}.stamp)
add_custom_command(
  OUTPUT ${stamp}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D FOLDER=${QKV_GOLDENS_DIR} -D STAMP=${stamp}
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${archives} ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Unpacking the goldens" VERBATIM)
add_custom_target(qkv_goldens DEPENDS ${stamp})

# In place too, where git ignores them: scripts and people name a case by its path in the tree.
foreach(archive ${archives})
  set(unpacked ${PROJECT_BINARY_DIR}/goldens.${list}.in_place)
  if(NOT EXISTS ${unpacked} OR ${archive} IS_NEWER_THAN ${unpacked})
    cmake_path(GET archive PARENT_PATH place)
    execute_process(COMMAND ${CMAKE_COMMAND} -E tar xf ${archive} WORKING_DIRECTORY ${place} OUTPUT_QUIET ERROR_QUIET)
  endif()
endforeach()
file(TOUCH ${unpacked})
