// die_with_parent: a forked child that outlives nobody. Header alone: the preloaded child, which is
// linked without the C++ library, uses it too.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace assay::harness {

/// In a forked child: ends it when the thread of `parent` that forked it ends, however that is;
/// SIGKILL runs no destructor that could end a child. Safe after a fork of many threads.
inline void die_with_parent(pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // it ended before the line above
}

}  // namespace assay::harness
