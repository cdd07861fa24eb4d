# Run on every build: states commit and dirty flag in a source file that changes only with them.
# ASSAY_COMMIT in the environment names the commit where there is no checkout (an unpacked archive).
set(commit "$ENV{ASSAY_COMMIT}")
set(dirty "unknown")
if(NOT commit)
  set(commit "unknown")
  execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --show-toplevel
                  OUTPUT_VARIABLE toplevel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE no_checkout)
  file(REAL_PATH "${SOURCE_DIR}" source_dir)
  # A copy of the sources inside someone else's checkout is not a checkout of assay.
  if(NOT no_checkout AND toplevel STREQUAL source_dir)
    execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse HEAD
                    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE no_status)
    if(head)
      set(commit "${head}")
    endif()
    if(NOT no_status)
      if(changes)
        set(dirty "true")
      else()
        set(dirty "false")
      endif()
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/src/build_info.cpp.in ${OUTPUT} @ONLY)
