# What the module of a wheel for PyPI (QKV_WHEEL) has otherwise than the system's packages: libtiff. Debian's needs JBIG-KIT
# (GPL-2.0), LERC, LZMA and Zstandard, which a wheel would carry along; this one is static, from Debian's own source package
# of the same version and without these. It is linked whole before the libraries, so that nothing asks for the shared one.
# What else is linked is bundled as Debian has it.
include(ExternalProject)
enable_language(C)
set(sources ${PROJECT_SOURCE_DIR}/build/wheel-sources)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/debian_sources.sh ${sources} bookworm tiff COMMAND_ERROR_IS_FATAL ANY)

set(tiff ${PROJECT_BINARY_DIR}/wheel-tiff)
# Hidden: not to be mixed up with another libtiff of the same process. The rest as in cmake/Hardening.cmake.
set(flags -w -fvisibility=hidden -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=3)
list(JOIN flags " " flags)
foreach(part jbig lerc lzma zstd cxx tiff-tools tiff-tests tiff-contrib tiff-docs)
  list(APPEND without -D${part}=OFF)
endforeach()
foreach(part zlib libdeflate jpeg webp)
  list(APPEND with -D${part}=ON)
endforeach()
ExternalProject_Add(wheel_tiff SOURCE_DIR ${sources}/tiff PREFIX ${tiff}
  CMAKE_ARGS ${with} ${without} -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
             -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_C_FLAGS=${flags}
             -DCMAKE_INSTALL_PREFIX=${tiff} -DCMAKE_INSTALL_LIBDIR=lib
  BUILD_BYPRODUCTS ${tiff}/lib/libtiff.a LOG_CONFIGURE ON LOG_BUILD ON LOG_INSTALL ON LOG_OUTPUT_ON_FAILURE ON)

add_dependencies(qkv_python wheel_tiff)
target_link_options(qkv_python PRIVATE -Wl,--as-needed,--whole-archive ${tiff}/lib/libtiff.a -Wl,--no-whole-archive)
target_link_libraries(qkv_python PRIVATE JPEG::JPEG ZLIB::ZLIB PkgConfig::Deflate PkgConfig::WebP m)

# manylinux_2_34: the versions of glibc and libstdc++ that RHEL 9 has.
target_sources(qkv_python PRIVATE src/older_libraries.cc)
target_link_options(qkv_python PRIVATE -Wl,--wrap=hypot,--wrap=_ZSt21__glibcxx_assert_failPKciS0_S0_
                    -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
