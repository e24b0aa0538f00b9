# The headers for users: qkv/qkv.h, and what it includes of this project, directly or not. The other headers are not
# installed.
cmake_policy(VERSION 3.25)  # the installation script that includes this sets none

# qkv_public_headers(SOURCE headers): sets `headers` to their names relative to the folder SOURCE, sorted.
function(qkv_public_headers source headers)
  set(found qkv/qkv.h)
  set(open ${found})
  while(open)
    list(POP_FRONT open header)
    file(STRINGS ${source}/${header} includes REGEX "^#include \"qkv/[^\"]+\"")
    foreach(include ${includes})
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" name ${include})
      if(NOT name IN_LIST found)
        list(APPEND found ${name})
        list(APPEND open ${name})
      endif()
    endforeach()
  endwhile()
  list(SORT found)
  set(${headers} ${found} PARENT_SCOPE)
endfunction()
