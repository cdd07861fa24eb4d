// SIGBUS beside mapped files: what is not about them goes where it went before.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <array>
#include <csetjmp>
#include <csignal>
#include <cstdlib>

#include "assay/base/system.hpp"
#include "checking_backing.hpp"
#include "file_fixture.hpp"

namespace assay {
namespace {

using test::all_zero;
using test::changed;
using test::counting;
using test::look;
using test::mapped;
using test::ScratchFile;

/// A mapping of a page that its file no longer has, made without assay.
class ForeignLostPage {
 public:
  ForeignLostPage() {
    const ScratchFile scratch(counting(page_size()));
    const int file = ::open(scratch.path(), O_RDONLY | O_CLOEXEC);
    page_ = static_cast<std::byte*>(::mmap(nullptr, page_size(), PROT_READ, MAP_PRIVATE, file, 0));
    ::close(file);
    scratch.resize(0);
  }
  ~ForeignLostPage() { ::munmap(page_, page_size()); }
  ForeignLostPage(const ForeignLostPage&) = delete;
  ForeignLostPage& operator=(const ForeignLostPage&) = delete;
  [[nodiscard]] const std::byte& byte() const { return page_[100]; }

 private:
  std::byte* page_;
};

/// Opens a mapping, and makes it lose a page: our handler is installed and has been used.
void use_a_mapping() {
  const ScratchFile scratch(counting(page_size()));
  const Ref<MappedFile> file = mapped(scratch.path());
  scratch.resize(0);
  if (look(file->memory()[0]) != std::byte{0} || !changed(*file)) std::_Exit(99);
}

// What a handler of SIGBUS of someone else's sees. Each in a process of its own, because ours is
// installed once.
class SigbusOfOthers : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void handle(void (*handler)(int, siginfo_t*, void*), int flags) {
    struct sigaction action{};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    ::sigaddset(&action.sa_mask, SIGUSR1);
    ::sigaction(SIGBUS, &action, nullptr);
  }
  static inline const std::byte* expected = nullptr;
  static inline volatile std::sig_atomic_t calls = 0;
  static inline sigjmp_buf out;
};

TEST_F(SigbusOfOthers, AFaultElsewhereIsStillDeath) {
  const auto fault = [] {
    ::signal(SIGBUS, SIG_DFL);
    use_a_mapping();
    const ForeignLostPage foreign;
    look(foreign.byte());
    std::_Exit(1);
  };
  EXPECT_EXIT(fault(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(SigbusOfOthers, ASignalThatWasSentIsStillDeath) {
  const auto send = [] {
    ::signal(SIGBUS, SIG_DFL);
    use_a_mapping();
    ::raise(SIGBUS);
    std::_Exit(1);
  };
  EXPECT_EXIT(send(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(SigbusOfOthers, AnIgnoredSignalIsStillIgnoredAndAFaultStillDeath) {
  const auto send = [] {
    ::signal(SIGBUS, SIG_IGN);
    use_a_mapping();
    ::raise(SIGBUS);
    use_a_mapping();
    const ForeignLostPage foreign;
    look(foreign.byte());
    std::_Exit(1);
  };
  EXPECT_EXIT(send(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(SigbusOfOthers, AnEarlierHandlerGetsThemAsBefore) {
  const auto fault = [] {
    handle(
        [](int signal, siginfo_t* info, void*) {
          sigset_t blocked;
          ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
          const bool masked = ::sigismember(&blocked, SIGBUS) == 1 &&
                              ::sigismember(&blocked, SIGUSR1) == 1 &&
                              ::sigismember(&blocked, SIGUSR2) == 0;
          const bool right = signal == SIGBUS && info->si_addr == expected && masked;
          calls = calls + (right ? 1 : 100);
          ::siglongjmp(out, 1);
        },
        0);
    use_a_mapping();
    const ForeignLostPage foreign;
    expected = &foreign.byte();
    for (int times = 0; times < 3; ++times) {
      if (sigsetjmp(out, 1) == 0) look(foreign.byte());
      use_a_mapping();
    }
    std::_Exit(calls);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(3), "");
}

TEST_F(SigbusOfOthers, AnEarlierHandlerOfOneArgumentGetsWhatIsSent) {
  const auto send = [] {
    ::signal(SIGBUS, [](int signal) { calls = calls + (signal == SIGBUS ? 1 : 100); });
    use_a_mapping();
    ::raise(SIGBUS);
    ::raise(SIGBUS);
    std::_Exit(calls);
  };
  EXPECT_EXIT(send(), testing::ExitedWithCode(2), "");
}

TEST_F(SigbusOfOthers, AnEarlierHandlerForOneSignalGetsOne) {
  const auto send = [] {
    handle([](int, siginfo_t*, void*) { calls = calls + 1; }, static_cast<int>(SA_RESETHAND));
    use_a_mapping();
    ::raise(SIGBUS);
    if (calls != 1) std::_Exit(1);
    ::raise(SIGBUS);
    std::_Exit(2);
  };
  EXPECT_EXIT(send(), testing::KilledBySignal(SIGBUS), "");
}

/// The kernel lets the first cut through at the limit, and no second. By the system calls
/// themselves, and not as the first signal of the thread: sanitizers need mappings of their own
/// there.
TEST_F(SigbusOfOthers, LostPagesAreMendedWhereNoMappingIsLeft) {
  const auto exhaust = [] {
    use_a_mapping();
    const std::size_t page = page_size();
    const ScratchFile scratch(counting(4 * page));
    const std::array files = {mapped(scratch.path()), mapped(scratch.path(), {page}),
                              mapped(scratch.path(), {0, 3 * page})};
    scratch.resize(0);
    constexpr std::size_t most = 1 << 21;
    const long base = ::syscall(SYS_mmap, nullptr, most * page, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    const auto at = [&](std::size_t index) {
      return static_cast<std::size_t>(base) + index * page;
    };
    std::size_t index = 1;
    while (index < most && ::syscall(SYS_mprotect, at(index), page, PROT_READ) == 0) index += 2;
    // The last one that is left: a page at the end takes one more, those in the middle two.
    ::syscall(SYS_mprotect, at(most - 1), page, PROT_READ);
    const bool exhausted = index < most;
    bool right = true;
    for (const auto& file : files) right = right && look(file->memory()[page]) == std::byte{0};
    ::syscall(SYS_munmap, base, most * page);
    for (const auto& file : files) right = right && changed(*file) && all_zero(file->memory());
    return !exhausted ? 2 : right ? 0 : 1;
  };
  EXPECT_EXIT(std::_Exit(exhaust()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace assay
