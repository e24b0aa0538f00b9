# The explorer's page: web/app, built by Node.js and npm into one HTML file. Where Node.js is missing or too old, a page
# that says so stands in for it.

set(QKV_NODE_VERSION 20.19)

# qkv_explorer_page(OUTPUT): sets OUTPUT to the file that the library embeds.
function(qkv_explorer_page output)
  find_program(QKV_NODE NAMES node nodejs)
  find_program(QKV_NPM npm)
  set(version "none")
  if(QKV_NODE)
    execute_process(COMMAND ${QKV_NODE} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REGEX REPLACE "^v" "" version "${version}")
  endif()
  if(NOT QKV_NPM OR version STREQUAL "none" OR version VERSION_LESS QKV_NODE_VERSION)
    message(NOTICE "qkv: without the explorer's page, which needs Node.js ${QKV_NODE_VERSION} or newer and npm (found: ${version})")
    set(${output} ${PROJECT_SOURCE_DIR}/web/no_page.html PARENT_SCOPE)
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/web/app)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/src/* ${folder}/index.html ${folder}/package-lock.json
       ${folder}/package.json ${folder}/tsconfig.json ${folder}/vite.config.ts)
  set(page ${CMAKE_CURRENT_BINARY_DIR}/page/index.html)
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/web_page.sh ${page}
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/tools/web_page.sh ${PROJECT_SOURCE_DIR}/web/no_page.html
    COMMENT "Building the explorer's page")
  set(${output} ${page} PARENT_SCOPE)
endfunction()
