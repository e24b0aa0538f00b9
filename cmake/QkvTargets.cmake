# One CMake library a folder of qkv/, one test program a folder of tests/, one fuzzer a parser.

set(QKV_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
if(QKV_WERROR)
  list(APPEND QKV_WARNINGS -Werror)
endif()

# Only explicit calls fuse a multiplication and an addition: the vector body and the tail of a loop round alike, pixels
# as in Pillow. For everything, since GCC forgets the option with a header that was precompiled without it.
add_compile_options(-ffp-contract=off)

# For code that takes no time when it runs, only when it is compiled: option parsing, tables, pages, configurations. It
# compiles in two thirds of the time of -O3. GCC's -O1 sees too little of std::optional to warn of uninitialised members.
set(QKV_COLD $<$<CONFIG:Release>:-O1> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)

# For templates of vectors and matrices and for the tests' own code, which UndefinedBehaviorSanitizer would make take
# twice as long to compile. AddressSanitizer watches them; bytes of strangers are read elsewhere.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,-]*undefined")
  set(QKV_NO_UBSAN -fno-sanitize=undefined)
endif()

# Under sanitizers, to optimise cold code and tests and to check them before every access takes the compiler longer than
# it saves when they run. AddressSanitizer watches the accesses.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(QKV_COLD -O0 -fno-sanitize=null,alignment,object-size,vptr)
  set(QKV_TEST_OPTIMISATION -O0)
else()
  # What takes time in tests is the libraries' code, compiled as for the product; -Og takes half the time of -O3.
  set(QKV_TEST_OPTIMISATION $<$<CONFIG:Release>:-Og>)
endif()

# Highway compiles its NEON code as if for processors with AES, and GCC inlines no such function into one without: not
# even the constructor of a vector into that of an array of them. Nothing here uses AES.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-march=armv8-a+crypto)
endif()

# What most sources include that is not ours, parsed once: up to half of the time that a file takes to compile. Presets
# that are not for release do without, which shows whether each file includes what it uses.
set(QKV_PRECOMPILED <algorithm> <cmath> <cstdint> <filesystem> <functional> <memory> <span> <string> <string_view>
    <utility> <vector> <fmt/format.h>)

# qkv_precompile(qkv_io <map>): QKV_PRECOMPILED and more; qkv_precompile(qkv_nn REUSE_FROM qkv_core): those of another.
# For GCC, which takes a precompiled header at any level of optimisation, and for emscripten's clang, which takes one of
# another level above none, for the header of cmake/Wasm.cmake that every source includes.
function(qkv_precompile target)
  cmake_parse_arguments(ARG "" "REUSE_FROM" "" ${ARGN})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT EMSCRIPTEN)
    return()
  endif()
  if(ARG_REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARG_REUSE_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${QKV_PRECOMPILED} ${ARG_UNPARSED_ARGUMENTS})
  endif()
endfunction()

# For shared libraries of users; WebAssembly has none.
if(EMSCRIPTEN)
  set(QKV_PIC OFF)
else()
  set(QKV_PIC ON)
endif()

# Sources of a library that are compiled together: they share what takes the time, headers and instances of templates.
set(QKV_UNITY_BATCH 6)
if(QKV_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It takes a source for a header, whose anonymous namespaces would be a mistake.
  list(APPEND QKV_WARNINGS -Wno-subobject-linkage)
elseif(QKV_UNITY)
  # A local name may be one of another source of its unit.
  list(APPEND QKV_WARNINGS -Wno-shadow)
endif()

# qkv_compile(qkv_model PRECOMPILE <map>): how the sources of a library are compiled. PRECOMPILE: the arguments of
# qkv_precompile, if not those of qkv_core are used.
function(qkv_compile target)
  cmake_parse_arguments(ARG "" "" "PRECOMPILE" ${ARGN})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ${QKV_PIC} UNITY_BUILD ${QKV_UNITY}
                        UNITY_BUILD_BATCH_SIZE ${QKV_UNITY_BATCH})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${QKV_WARNINGS})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  if(NOT ARG_PRECOMPILE AND NOT target STREQUAL "qkv_core")
    set(ARG_PRECOMPILE REUSE_FROM qkv_core)
  endif()
  qkv_precompile(${target} ${ARG_PRECOMPILE})
endfunction()

# qkv_library(core SOURCES a.cc b.cc COLD c.cc DEPS qkv_x PRIVATE_DEPS lib PRECOMPILE <map>): COLD are the sources that
# are compiled with QKV_COLD; PRECOMPILE as for qkv_compile.
function(qkv_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;COLD;DEPS;PRIVATE_DEPS;PRECOMPILE" ${ARGN})
  add_library(qkv_${name} STATIC ${ARG_SOURCES})
  add_library(qkv::${name} ALIAS qkv_${name})
  set_target_properties(qkv_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(qkv_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  qkv_compile(qkv_${name} PRECOMPILE ${ARG_PRECOMPILE})
  if(ARG_COLD)
    add_library(qkv_${name}_cold OBJECT ${ARG_COLD})
    target_link_libraries(qkv_${name}_cold PRIVATE ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
    qkv_compile(qkv_${name}_cold PRECOMPILE ${ARG_PRECOMPILE})
    target_compile_options(qkv_${name}_cold PRIVATE ${QKV_COLD})
    target_sources(qkv_${name} PRIVATE $<TARGET_OBJECTS:qkv_${name}_cold>)
  endif()
  set_property(GLOBAL APPEND PROPERTY QKV_LIBRARIES qkv_${name})
endfunction()

# qkv_test(core SOURCES a_test.cc ALONE b_test.cc DEPS qkv_core ENVIRONMENT A=b): ALONE are sources that are compiled
# alone, as they share names with others.
function(qkv_test name)
  if(NOT QKV_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;DEPS;ENVIRONMENT" ${ARGN})
  add_executable(qkv_${name}_test ${ARG_SOURCES} ${ARG_ALONE})
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(qkv_${name}_test PROPERTIES UNITY_BUILD ${QKV_UNITY} UNITY_BUILD_BATCH_SIZE ${QKV_UNITY_BATCH})
  # A local name may be one of another source of its unit.
  target_compile_options(qkv_${name}_test PRIVATE ${QKV_WARNINGS} $<$<BOOL:${QKV_UNITY}>:-Wno-shadow>
                         ${QKV_TEST_OPTIMISATION} ${QKV_NO_UBSAN})
  target_link_libraries(qkv_${name}_test PRIVATE ${ARG_DEPS} qkv_test_support GTest::gtest_main)
  if(name STREQUAL "core")
    qkv_precompile(qkv_core_test <limits> <map> <optional> <gtest/gtest.h>)
  else()
    qkv_precompile(qkv_${name}_test REUSE_FROM qkv_core_test)
  endif()
  # One entry; tools/run_tests.py deals the suite's tests out to a process a core.
  add_test(NAME ${name} COMMAND qkv_${name}_test)
  set_tests_properties(${name} PROPERTIES LABELS suite ENVIRONMENT "${ARG_ENVIRONMENT}" TIMEOUT 3600)
endfunction()

# qkv_fuzzer(safetensors qkv_io): libFuzzer on fuzz/safetensors_fuzzer.cc with qkv_io, with clang and QKV_BUILD_FUZZERS
# only.
function(qkv_fuzzer name)
  add_executable(fuzz_${name} ${name}_fuzzer.cc)
  target_compile_options(fuzz_${name} PRIVATE ${QKV_WARNINGS})
  target_link_libraries(fuzz_${name} PRIVATE ${ARGN} -fsanitize=fuzzer)
  set_property(GLOBAL APPEND PROPERTY QKV_FUZZERS ${name})
endfunction()
