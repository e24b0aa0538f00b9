# The engine compiled to WebAssembly by Debian's emscripten (docs/web.md). Libraries that have compiled parts are built
# here from Debian's own sources (tools/debian_sources.sh), those that are headers are the machine's. Decoders of images and
# configurations of training are left out: browsers decode images, and nothing is trained there.
set(QKV_WEB_SOURCES ${PROJECT_SOURCE_DIR}/build/wasm-sources)
set(fetch ${PROJECT_SOURCE_DIR}/tools/debian_sources.sh ${QKV_WEB_SOURCES})
execute_process(COMMAND ${fetch} bookworm fmtlib libdeflate libpng1.6 pcre2 utf8proc zlib COMMAND_ERROR_IS_FATAL ANY)
# The version of Debian 12 has no vectors of double in WebAssembly.
execute_process(COMMAND ${fetch} trixie highway COMMAND_ERROR_IS_FATAL ANY)

enable_language(C)
if(CCACHE)
  # By the compiler's own list of headers: to preprocess each source first takes emcc as long as to compile a small one.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
option(QKV_WASM_THREADS "Threads, for pages that are isolated from other origins" OFF)

# Vectors of 128 bits; exceptions and long jumps by the processor's own instructions, which all browsers of 2022 have.
add_compile_options(-msimd128 -fwasm-exceptions -sSUPPORT_LONGJMP=wasm)
add_link_options(-msimd128 -fwasm-exceptions -sSUPPORT_LONGJMP=wasm)
if(QKV_WASM_THREADS)
  add_compile_options(-pthread)
  add_link_options(-pthread)
endif()

# Headers, each folder by itself: those of the machine's own C library must not be seen.
set(headers ${PROJECT_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(folder nlohmann eigen3/Eigen range concepts meta std fast_float)
  if(NOT EXISTS /usr/include/${folder})
    message(FATAL_ERROR "/usr/include/${folder} is missing: tools/setup.sh web")
  endif()
  cmake_path(GET folder FILENAME name)
  file(CREATE_LINK /usr/include/${folder} ${headers}/${name} SYMBOLIC)
endforeach()
# What its C++ library lacks of C++20.
include_directories(SYSTEM ${headers})
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-include${CMAKE_CURRENT_LIST_DIR}/wasm/standard_library.h>)

foreach(name Eigen3::Eigen nlohmann_json::nlohmann_json Threads::Threads)
  add_library(${name} INTERFACE IMPORTED)
endforeach()

# qkv_web_library(NAME TARGET INCLUDE folder SOURCES …): NAME is what find_package calls it.
function(qkv_web_library name target)
  cmake_parse_arguments(ARG "" "INCLUDE" "SOURCES;DEFINITIONS;DEPS" ${ARGN})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_include_directories(${target} SYSTEM PUBLIC ${ARG_INCLUDE})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINITIONS})
  target_compile_options(${target} PRIVATE -w)
  target_link_libraries(${target} PUBLIC ${ARG_DEPS})
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17)
  add_library(${name} ALIAS ${target})
endfunction()

set(from ${QKV_WEB_SOURCES}/fmtlib)
qkv_web_library(fmt::fmt web_fmt INCLUDE ${from}/include SOURCES ${from}/src/format.cc)

set(from ${QKV_WEB_SOURCES}/highway)
qkv_web_library(hwy::hwy web_hwy INCLUDE ${from} DEFINITIONS TOOLCHAIN_MISS_ASM_HWCAP_H
                SOURCES ${from}/hwy/abort.cc ${from}/hwy/aligned_allocator.cc ${from}/hwy/targets.cc)
target_compile_definitions(web_hwy PUBLIC HWY_STATIC_DEFINE)

set(from ${QKV_WEB_SOURCES}/zlib)
list(TRANSFORM from APPEND / OUTPUT_VARIABLE zlib)
qkv_web_library(ZLIB::ZLIB web_zlib INCLUDE ${from} SOURCES
  ${zlib}adler32.c ${zlib}compress.c ${zlib}crc32.c ${zlib}deflate.c ${zlib}inffast.c ${zlib}inflate.c ${zlib}inftrees.c
  ${zlib}trees.c ${zlib}zutil.c)

set(from ${QKV_WEB_SOURCES}/libdeflate)
qkv_web_library(PkgConfig::Deflate web_deflate INCLUDE ${from} SOURCES ${from}/lib/crc32.c ${from}/lib/utils.c)

set(from ${QKV_WEB_SOURCES}/libpng1.6)
configure_file(${from}/scripts/pnglibconf.h.prebuilt ${PROJECT_BINARY_DIR}/png/pnglibconf.h COPYONLY)
foreach(part png pngerror pngget pngmem pngpread pngread pngrio pngrtran pngrutil pngset pngtrans pngwio pngwrite pngwtran
             pngwutil)
  list(APPEND png ${from}/${part}.c)
endforeach()
qkv_web_library(PNG::PNG web_png INCLUDE ${from} SOURCES ${png} DEPS ZLIB::ZLIB)
target_include_directories(web_png SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/png)

set(from ${QKV_WEB_SOURCES}/pcre2/src)
configure_file(${from}/config.h.generic ${PROJECT_BINARY_DIR}/pcre2/config.h COPYONLY)
configure_file(${from}/pcre2.h.generic ${PROJECT_BINARY_DIR}/pcre2/pcre2.h COPYONLY)
configure_file(${from}/pcre2_chartables.c.dist ${PROJECT_BINARY_DIR}/pcre2/pcre2_chartables.c COPYONLY)
foreach(part auto_possess compile config context convert dfa_match error extuni find_bracket jit_compile maketables match
             match_data newline ord2utf pattern_info script_run serialize string_utils study substitute substring tables
             ucd valid_utf xclass)
  list(APPEND pcre2 ${from}/pcre2_${part}.c)
endforeach()
qkv_web_library(PkgConfig::Pcre2 web_pcre2 INCLUDE ${PROJECT_BINARY_DIR}/pcre2
                SOURCES ${pcre2} ${PROJECT_BINARY_DIR}/pcre2/pcre2_chartables.c
                DEFINITIONS HAVE_CONFIG_H PCRE2_CODE_UNIT_WIDTH=8 PCRE2_STATIC SUPPORT_UNICODE SUPPORT_PCRE2_8
                            HAVE_MEMMOVE)
target_include_directories(web_pcre2 PRIVATE ${from})

set(from ${QKV_WEB_SOURCES}/utf8proc)
qkv_web_library(PkgConfig::Utf8proc web_utf8proc INCLUDE ${from} SOURCES ${from}/utf8proc.c)
target_compile_definitions(web_utf8proc PUBLIC UTF8PROC_STATIC)
