# Libraries for slides and scans, each optional: group `slide` of tools/packages.txt.
pkg_check_modules(OpenJpeg QUIET IMPORTED_TARGET libopenjp2)
pkg_search_module(Hdf5 QUIET hdf5 hdf5-serial)  # headers; the library is loaded when it is used
find_package(DCMTK QUIET)
find_package(EXPAT QUIET)

set(missing)
foreach(library OpenJpeg Hdf5 DCMTK EXPAT)
  if(NOT ${library}_FOUND)
    list(APPEND missing ${library})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "Slides and scans are built without ${missing}: tools/setup.sh slide")
endif()
