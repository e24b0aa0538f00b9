# The pages of web/app, built by Node.js and npm into one HTML file each. Where Node.js is missing or too old, a page that
# says so stands in for them.

# Sets QKV_EXPLORER_PAGE, QKV_ATTEND_PAGE and QKV_SLIDE_PAGE, the files that libraries embed; the target qkv_pages makes them.
function(qkv_pages)
  set(folder ${PROJECT_SOURCE_DIR}/web/app)
  file(READ ${folder}/package.json package)
  string(JSON least GET ${package} engines node)
  string(REPLACE ">=" "" least ${least})
  find_program(QKV_NODE NAMES node nodejs)
  find_program(QKV_NPM npm)
  set(version "none")
  if(QKV_NODE)
    execute_process(COMMAND ${QKV_NODE} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REGEX REPLACE "^v" "" version "${version}")
  endif()
  if(NOT QKV_NPM OR version STREQUAL "none" OR version VERSION_LESS least)
    message(NOTICE "qkv: without the explorer's page, attend's and those of slides, which need Node.js ${least} or newer and "
                   "npm (found: ${version}); Debian has both: tools/setup.sh page")
    set(QKV_EXPLORER_PAGE ${PROJECT_SOURCE_DIR}/web/no_page.html PARENT_SCOPE)
    set(QKV_ATTEND_PAGE ${PROJECT_SOURCE_DIR}/web/no_page.html PARENT_SCOPE)
    set(QKV_SLIDE_PAGE ${PROJECT_SOURCE_DIR}/web/no_page.html PARENT_SCOPE)
    add_custom_target(qkv_pages)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/src/* ${folder}/*.html ${folder}/package-lock.json
       ${folder}/package.json ${folder}/tsconfig.json ${folder}/vite.config.ts)
  list(FILTER sources EXCLUDE REGEX /node_modules/|/dist)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(
    OUTPUT ${pages}/index.html ${pages}/attend.html ${pages}/slide.html
    COMMAND ${PROJECT_SOURCE_DIR}/tools/web_page.sh ${pages}
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/web/shared.css ${PROJECT_SOURCE_DIR}/web/engine/packet.mjs ${PROJECT_SOURCE_DIR}/tools/web_page.sh
            ${PROJECT_SOURCE_DIR}/web/no_page.html
    COMMENT "Building the pages of web/app")
  add_custom_target(qkv_pages DEPENDS ${pages}/index.html ${pages}/attend.html ${pages}/slide.html)
  set(QKV_EXPLORER_PAGE ${pages}/index.html PARENT_SCOPE)
  set(QKV_ATTEND_PAGE ${pages}/attend.html PARENT_SCOPE)
  set(QKV_SLIDE_PAGE ${pages}/slide.html PARENT_SCOPE)
endfunction()
