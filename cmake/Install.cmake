# What `cmake --install` puts where: the program with its man page and completions (component program), the headers for
# users, static libraries, find_package(qkv) and qkv.pc (component development). cmake/Package.cmake makes .debs of the two.
include(CMakePackageConfigHelpers)

get_property(QKV_LIBRARIES GLOBAL PROPERTY QKV_LIBRARIES)

# All libraries by one name.
add_library(qkv_all INTERFACE)
add_library(qkv::qkv ALIAS qkv_all)
set_target_properties(qkv_all PROPERTIES EXPORT_NAME qkv)
target_link_libraries(qkv_all INTERFACE ${QKV_LIBRARIES})
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

install(TARGETS ${QKV_LIBRARIES} qkv_all EXPORT qkvTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
# Which headers are for users is found out when they are installed, from their text.
install(CODE "
  include(\"${CMAKE_CURRENT_LIST_DIR}/PublicHeaders.cmake\")
  qkv_public_headers(\"${PROJECT_SOURCE_DIR}\" headers)
  foreach(header \${headers})
    cmake_path(GET header PARENT_PATH folder)
    file(INSTALL \"${PROJECT_SOURCE_DIR}/\${header}\" TYPE FILE
         DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/\${folder}\")
  endforeach()" COMPONENT development)

# What static libraries link of the optional packages (cmake/Medical.cmake).
set(QKV_CONFIG_OPTIONAL)
set(QKV_PC_OPTIONAL)
if(OpenJpeg_FOUND)
  string(APPEND QKV_CONFIG_OPTIONAL "if(NOT TARGET PkgConfig::OpenJpeg)\n"
         "  pkg_check_modules(OpenJpeg REQUIRED QUIET IMPORTED_TARGET libopenjp2)\nendif()\n")
  list(APPEND QKV_PC_OPTIONAL libopenjp2)
endif()
if(EXPAT_FOUND)
  string(APPEND QKV_CONFIG_OPTIONAL "find_dependency(EXPAT)\n")
  list(APPEND QKV_PC_OPTIONAL expat)
endif()
list(JOIN QKV_PC_OPTIONAL " " QKV_PC_OPTIONAL)

set(QKV_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)
install(EXPORT qkvTargets NAMESPACE qkv:: DESTINATION ${QKV_CMAKE_FOLDER} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/qkvConfig.cmake.in ${PROJECT_BINARY_DIR}/qkvConfig.cmake
                              INSTALL_DESTINATION ${QKV_CMAKE_FOLDER})
# Before 1.0 each minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qkvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qkvConfig.cmake ${PROJECT_BINARY_DIR}/qkvConfigVersion.cmake
        DESTINATION ${QKV_CMAKE_FOLDER} COMPONENT development)

# A static library stands before what it uses, so the last one first.
set(libraries ${QKV_LIBRARIES})
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND "-l")
list(JOIN libraries " " QKV_PC_LIBRARIES)
# The .pc file finds its prefix from where it lies.
file(RELATIVE_PATH QKV_PC_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
string(REGEX REPLACE "/$" "" QKV_PC_PREFIX "${QKV_PC_PREFIX}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/qkv.pc.in ${PROJECT_BINARY_DIR}/qkv.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qkv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# What is installed, without the tests.
add_custom_target(qkv_product DEPENDS ${QKV_LIBRARIES})

if(TARGET qkv_cli)
  add_dependencies(qkv_product qkv_cli)
  install(TARGETS qkv_cli RUNTIME COMPONENT program)
  set(completions ${PROJECT_SOURCE_DIR}/cli/completions)
  install(FILES ${completions}/qkv.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME qkv
          COMPONENT program)
  install(FILES ${completions}/_qkv DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
  install(FILES ${completions}/qkv.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/qkv.service ${PROJECT_SOURCE_DIR}/docs/nginx.conf
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/qkv/examples COMPONENT program)
  foreach(model digits-merged digits-shared english-italian synopsis)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/${model} DESTINATION ${CMAKE_INSTALL_DATADIR}/qkv/models
            COMPONENT program)
  endforeach()
  find_program(SCDOC scdoc)
  find_program(GZIP gzip)
  if(SCDOC AND GZIP)
    # The program adds the options that the page's own text leaves to it.
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/qkv.1.gz VERBATIM
                       DEPENDS ${PROJECT_SOURCE_DIR}/docs/qkv.1.scd qkv_cli
                       COMMAND qkv_cli __man_page < ${PROJECT_SOURCE_DIR}/docs/qkv.1.scd > qkv.1.scd
                       COMMAND ${SCDOC} < qkv.1.scd > qkv.1
                       COMMAND ${GZIP} -9nf qkv.1
                       WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
    add_custom_target(qkv_man ALL DEPENDS ${PROJECT_BINARY_DIR}/qkv.1.gz)
    add_dependencies(qkv_product qkv_man)
    install(FILES ${PROJECT_BINARY_DIR}/qkv.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  else()
    message(STATUS "No scdoc: the man page is left out")
  endif()
endif()

if(TARGET qkv_openslide)
  add_dependencies(qkv_product qkv_openslide)
  install(TARGETS qkv_openslide RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/qkv COMPONENT program)
endif()

if(TARGET qkv_mpi)
  add_dependencies(qkv_product qkv_mpi)
  install(TARGETS qkv_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/qkv COMPONENT mpi)
endif()

if(TARGET qkv_dicom)
  add_dependencies(qkv_product qkv_dicom)
  install(TARGETS qkv_dicom LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/qkv COMPONENT dicom)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/Package.cmake)
