# The explorer's page, web/app: TypeScript, built by Node into one HTML file.

option(QKV_WEB "build the explorer's page; needs Node 20.19 or later, npm, and its registry once" ON)

# Installs the page's packages as locked, unless that was done; `why` says what was in the way.
function(qkv_web_packages app why)
  find_program(QKV_NODE node)
  find_program(QKV_NPM npm)
  if(NOT QKV_NODE OR NOT QKV_NPM)
    set(${why} "node and npm were not found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${QKV_NODE} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REGEX REPLACE "^v" "" version "${version}")
  if(NOT version VERSION_GREATER_EQUAL 20.19)
    set(${why} "${QKV_NODE} has version ${version}, not 20.19 or later" PARENT_SCOPE)
    return()
  endif()
  # npm's own record of what it installed is as new as the last install.
  if(NOT EXISTS ${app}/node_modules/.package-lock.json
     OR ${app}/package-lock.json IS_NEWER_THAN ${app}/node_modules/.package-lock.json)
    message(STATUS "Installing the packages of web/app")
    execute_process(COMMAND ${QKV_NPM} ci --no-audit --no-fund WORKING_DIRECTORY ${app} TIMEOUT 600
                    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE error)
    if(NOT result EQUAL 0)
      string(REGEX MATCH "[^\n]+" error "${error}")
      set(${why} "npm ci failed (${error})" PARENT_SCOPE)
      return()
    endif()
    file(TOUCH ${app}/node_modules/.package-lock.json)
  endif()
  set(${why} "" PARENT_SCOPE)
endfunction()

# qkv_web_app(PAGE ATTEND): the paths of the explorer's page and of that of `qkv attend`, which a rule of this folder makes:
# pass them to qkv_embed() in the same CMakeLists. Without Node both are web/app/missing.html, which says so, and
# QKV_HAS_WEB_APP is false.
function(qkv_web_app page attend)
  set(app ${PROJECT_SOURCE_DIR}/web/app)
  set(why "QKV_WEB is off")
  if(QKV_WEB)
    qkv_web_packages(${app} why)
  endif()
  if(why)
    message(STATUS "The explorer's page is left out: ${why}")
    set(${page} ${app}/missing.html PARENT_SCOPE)
    set(${attend} ${app}/missing.html PARENT_SCOPE)
    set(QKV_HAS_WEB_APP OFF PARENT_SCOPE)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${app}/src/*)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/web_app)
  add_custom_command(
    OUTPUT ${out}/index.html ${out}/attend.html
    COMMAND ${CMAKE_COMMAND} -E env QKV_WEB_OUT=${out} ${QKV_NPM} run --silent build
    DEPENDS ${sources} ${app}/index.html ${app}/attend.html ${app}/package-lock.json ${app}/tsconfig.json ${app}/vite.config.ts
    WORKING_DIRECTORY ${app}
    COMMENT "Building the explorer's page"
    VERBATIM)
  set(${page} ${out}/index.html PARENT_SCOPE)
  set(${attend} ${out}/attend.html PARENT_SCOPE)
  set(QKV_HAS_WEB_APP ON PARENT_SCOPE)
endfunction()
