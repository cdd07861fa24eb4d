# Libraries that are not the point of assay. scripts/setup names the packages to install.
find_package(fmt REQUIRED)
# Header-only {fmt} compiles its core in each source, 40 % of a sanitized build (measured); Debian
# has no static one, so only what must run without its packages pays for that.
set(assay_fmt $<IF:$<BOOL:${ASSAY_PORTABLE}>,fmt::fmt-header-only,fmt::fmt>)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(benchmark REQUIRED)
if(ASSAY_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
find_path(RAPIDCHECK_INCLUDE_DIR rapidcheck.h REQUIRED)
find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
add_library(assay_rapidcheck INTERFACE)
target_include_directories(assay_rapidcheck SYSTEM INTERFACE ${RAPIDCHECK_INCLUDE_DIR})
target_link_libraries(assay_rapidcheck INTERFACE ${RAPIDCHECK_LIBRARY})
