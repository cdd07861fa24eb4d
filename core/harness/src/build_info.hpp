// What the build states of itself; written by core/harness/build_info.cmake.
#pragma once

namespace assay::harness::build_info {

extern const char* const version;
extern const char* const commit;
extern const char* const dirty;
extern const char* const compiler;
extern const char* const compiler_flags;
extern const char* const build_type;
extern const char* const lto;
extern const char* const sanitizers;
extern const char* const benchmark_library_version;

}  // namespace assay::harness::build_info
