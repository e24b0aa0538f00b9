# One CMake library a folder of qkv/, one test program a folder of tests/, one fuzzer a parser.

set(QKV_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
if(QKV_WERROR)
  list(APPEND QKV_WARNINGS -Werror)
endif()

# For code that takes no time when it runs, only when it is compiled: option parsing, tables, pages, configurations. With
# -O1 a file of it compiles in about half the time of -O3.
set(QKV_COLD $<$<CONFIG:Release>:-O1>)

# Highway compiles its NEON code as if for processors with AES, and GCC inlines no such function into one without: not
# even the constructor of a vector into that of an array of them. Nothing here uses AES.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-march=armv8-a+crypto)
endif()

# qkv_library(core SOURCES a.cc b.cc DEPS qkv_x PRIVATE_DEPS lib)
function(qkv_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(qkv_${name} STATIC ${ARG_SOURCES})
  add_library(qkv::${name} ALIAS qkv_${name})
  set_target_properties(qkv_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(qkv_${name} PUBLIC cxx_std_20)
  target_compile_options(qkv_${name} PRIVATE ${QKV_WARNINGS})
  target_include_directories(qkv_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(qkv_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  set_property(GLOBAL APPEND PROPERTY QKV_LIBRARIES qkv_${name})
endfunction()

# qkv_test(core SOURCES a_test.cc DEPS qkv_core ENVIRONMENT A=b)
function(qkv_test name)
  if(NOT QKV_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;ENVIRONMENT" ${ARGN})
  add_executable(qkv_${name}_test ${ARG_SOURCES})
  # Half the compile time of -O3; what takes time in tests is the libraries' code, compiled as for the product.
  target_compile_options(qkv_${name}_test PRIVATE ${QKV_WARNINGS} $<$<CONFIG:Release>:-O1>)
  target_link_libraries(qkv_${name}_test PRIVATE ${ARG_DEPS} qkv_test_support GTest::gtest_main)
  gtest_discover_tests(qkv_${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES ENVIRONMENT "${ARG_ENVIRONMENT}" TIMEOUT 900)
endfunction()

# qkv_fuzzer(safetensors DEPS qkv_io): libFuzzer on fuzz/safetensors_fuzzer.cc, with clang and QKV_BUILD_FUZZERS only.
# SOURCES are those of a library that is not built whole.
function(qkv_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(fuzz_${name} ${name}_fuzzer.cc ${ARG_SOURCES})
  target_compile_options(fuzz_${name} PRIVATE ${QKV_WARNINGS})
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPS} -fsanitize=fuzzer)
  set_property(GLOBAL APPEND PROPERTY QKV_FUZZERS ${name})
endfunction()
