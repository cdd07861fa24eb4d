# Language level, warnings and sanitizers: one interface target that every assay target links.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Contracts stay on in release builds; only <cassert> is off.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(assay_options INTERFACE)
target_compile_options(assay_options INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wpedantic
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
if(ASSAY_WARNINGS_AS_ERRORS)
  target_compile_options(assay_options INTERFACE -Werror)
endif()
if(ASSAY_SANITIZE)
  # A report names functions and lines; full debug information would cost a tenth of the build.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -gline-tables-only -DNDEBUG")
  target_compile_options(assay_options INTERFACE -fsanitize=${ASSAY_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(assay_options INTERFACE -fsanitize=${ASSAY_SANITIZE})
  target_compile_definitions(assay_options INTERFACE ASSAY_SANITIZED=1)
endif()

# A build to carry to machines without its packages: only the C library stays dynamic, and what
# else must come along lies in ../lib (scripts/package).
option(ASSAY_PORTABLE "Link the C++ runtime and every library that can be statically" OFF)
if(ASSAY_PORTABLE)
  set(ZLIB_USE_STATIC_LIBS ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  add_library(assay_static_runtime INTERFACE)
  target_link_options(assay_static_runtime INTERFACE -static-libstdc++ -static-libgcc
                      -Wl,--exclude-libs,ALL -Wl,--as-needed)
endif()

# What results say of the build: compiler, flags, build type, sanitizers.
string(TOUPPER "${CMAKE_BUILD_TYPE}" assay_build_type_upper)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${assay_build_type_upper}}" assay_flags)

# ctest runs RapidCheck from a fixed seed, so that a run is repeatable; scripts/check --full draws
# fresh ones.
set(ASSAY_SEEDS "RC_PARAMS=seed=20261130")
