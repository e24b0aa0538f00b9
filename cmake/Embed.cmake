# Files inside a library, taken in by the assembler as they are: an array of numbers would cost the compiler seconds.

# Around such files. WebAssembly's assembler wants a name of each section and the type and size of each symbol.
if(EMSCRIPTEN)
  set(QKV_EMBED_BEGIN ".section .rodata.qkv_files,\"\",@")
  set(QKV_EMBED_END "")
else()
  set(QKV_EMBED_BEGIN ".section .rodata")
  set(QKV_EMBED_END ".text")
endif()

# qkv_incbin(SYMBOL FILE BYTES NAMES): appends to BYTES the assembly of FILE from SYMBOL to SYMBOL_end, followed by a zero
# byte, and to NAMES the C declaration of the two.
function(qkv_incbin symbol file bytes names)
  string(APPEND ${bytes}
    "${symbol}:\n  .incbin \"${file}\"\n${symbol}_end:\n  .byte 0\n"
    "  .globl ${symbol}, ${symbol}_end\n  .hidden ${symbol}, ${symbol}_end\n")
  if(EMSCRIPTEN)
    string(APPEND ${bytes}
      "  .type ${symbol}, @object\n  .size ${symbol}, . - ${symbol}\n"
      "  .type ${symbol}_end, @object\n  .size ${symbol}_end, 1\n")
  endif()
  string(APPEND ${names} "extern const char ${symbol}[], ${symbol}_end[];\n")
  set(${bytes} "${${bytes}}" PARENT_SCOPE)
  set(${names} "${${names}}" PARENT_SCOPE)
endfunction()

# qkv_embed(web_files.cc HEADER qkv/report/web_files.h NAMESPACE qkv::report FILES PageCss web/report/page.css …): writes
# web_files.cc into the build folder. It defines a function for each file, std::string_view PageCss(), which HEADER
# declares.
function(qkv_embed source)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES" ${ARGN})
  set(QKV_EMBED_HEADER ${ARG_HEADER})
  set(QKV_EMBED_NAMESPACE ${ARG_NAMESPACE})
  set(paths)
  while(ARG_FILES)
    list(POP_FRONT ARG_FILES name file)
    string(MAKE_C_IDENTIFIER "qkv_${name}" symbol)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    qkv_incbin(${symbol} ${file} QKV_EMBED_BYTES QKV_EMBED_NAMES)
    string(APPEND QKV_EMBED_FUNCTIONS "std::string_view ${name}() { return {${symbol}, size_t(${symbol}_end - ${symbol})}; }\n")
    list(APPEND paths ${file})
  endwhile()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embed.cc.in ${source} @ONLY)
  # Compiled together would be linked together.
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${source} PROPERTIES OBJECT_DEPENDS "${paths}"
                              SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
