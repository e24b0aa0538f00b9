# `cpack -G DEB` (in the build folder) makes qkv, the program, libqkv-dev, the library, and where MPI is there qkv-mpi,
# which the program loads when mpirun starts it.
set(CPACK_PACKAGE_NAME qkv)
set(CPACK_PACKAGE_VENDOR "The qkv authors")
set(CPACK_PACKAGE_CONTACT "The qkv authors <maintainers@users.noreply.a-seed-3c0736fb.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run Vision Transformers straight from their checkpoints")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program development)
if(TARGET qkv_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
if(TARGET qkv_dicom)
  list(APPEND CPACK_COMPONENTS_ALL dicom)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME qkv)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
# From the program itself; needs dpkg-dev.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
# Loaded at the first HEIC or AVIF file (qkv/image/heif_library.h), at the first slide (qkv/slide/read/openslide_search.h),
# and at the first file of vectors of slides.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libheif1, libopenslide0, libhdf5-103-1")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
"qkv reads timm, Hugging Face and vit-pytorch checkpoints (safetensors) as they
lie on disk, and classifies, embeds and compares images with them. No Python,
no export step. A small classifier of digits is built in.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libqkv-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
"libfmt-dev, libhwy-dev, nlohmann-json3-dev, libjpeg-dev, libpng-dev, libtiff-dev, libwebp-dev, libgif-dev, libfreetype-dev, libpcre2-dev, libutf8proc-dev, libyaml-cpp-dev, zlib1g-dev, libdeflate-dev, pkgconf")
if(OpenJpeg_FOUND)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libopenjp2-7-dev")
endif()
if(EXPAT_FOUND)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libexpat1-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS libheif1)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"Headers and static libraries of qkv, a Vision Transformer runtime in C++20,
for find_package(qkv) and pkg-config.")

set(CPACK_DEBIAN_MPI_PACKAGE_NAME qkv-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "qkv (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_MPI_DESCRIPTION
"What qkv loads to train a model by several processes, on one machine or on
several: mpirun -n 2 qkv train.")

set(CPACK_DEBIAN_DICOM_PACKAGE_NAME qkv-dicom)
set(CPACK_DEBIAN_DICOM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DICOM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DICOM_PACKAGE_DEPENDS "qkv (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DICOM_DESCRIPTION
"What qkv loads to read DICOM: scans of every modality as images, series of
slices, and whole slides of microscopes.")

# What Debian's policy wants beside every package: its licence and its changes.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/deb/copyright DESTINATION ${folder} COMPONENT ${component})
  if(GZIP)
    set(changelog ${PROJECT_BINARY_DIR}/changelog.gz)
    install(FILES ${changelog} DESTINATION ${folder} COMPONENT ${component})
  endif()
endforeach()
if(GZIP)
  execute_process(COMMAND ${GZIP} -9nc ${CMAKE_CURRENT_LIST_DIR}/deb/changelog OUTPUT_FILE ${changelog}
                  COMMAND_ERROR_IS_FATAL ANY)
endif()

include(CPack)
