// Each property as RapidCheck tries it, on the real operations or on a mutant.
#pragma once

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include <sstream>

#include "copy_on_write_isolates.hpp"
#include "generate.hpp"
#include "homes.hpp"
#include "split_joins_back.hpp"
#include "view_aliases.hpp"
#include "wipe_on_release.hpp"
#include "zero_on_grow.hpp"

namespace assay::properties {

inline void pass(const std::string& fault) {
  if (!fault.empty()) RC_FAIL(fault);
}

using Sizes = std::vector<std::uint16_t>;

// Each struct makes a RapidCheck property of a property template.
struct SplitJoinsBack {
  template <class Ops>
  static auto of() {
    return [](bool shared, bool owned, const Sizes& cuts, const Sizes& merges) {
      const auto size = *small_size();
      const auto room = *small_size();
      pass(split_joins_back<Ops>({size, room, shared, owned, cuts, merges}));
    };
  }
};

struct ViewAliases {
  template <class Ops>
  static auto of() {
    return [](bool foreign, const std::vector<std::pair<std::uint16_t, std::uint16_t>>& windows) {
      const auto size = *small_size();
      pass(view_aliases<Ops>({size, windows, foreign}));
    };
  }
};

struct CopyOnWriteIsolates {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) {
      pass(copy_on_write_isolates(BytesOps::of<Ops>(), commands, {.device = model_device()}));
    };
  }
};

/// Where the home can move pages, growth copies nothing.
struct PagesMove {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) {
      pass(copy_on_write_isolates(BytesOps::of<Ops>(), commands,
                                  {.home = harness::find_subject("virtual")}));
    };
  }
};

struct FailuresChangeNothing {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) {
      pass(failures_change_nothing(BytesOps::of<Ops>(), commands,
                                   {.wipe = Wipe::on_release, .device = model_device()}));
    };
  }
};

/// Of FailuresChangeNothing, the failing reads alone.
struct FailedReadsAreRetried {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) {
      pass(with_each_failing(Injection::What::read, BytesOps::of<Ops>(), commands, {},
                             [](BytesWorld&) { return std::string(); }));
    };
  }
};

struct ZeroOnGrow {
  template <class Ops>
  static auto of() {
    return [](bool windowed, bool reuse, const BufferCommands& commands) {
      const auto size = *small_size();
      const auto capacity = *small_size();
      pass(zero_on_grow<Ops>({size, capacity, windowed, reuse, commands}));
    };
  }
};

struct WipeOnReleaseOfBytes {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) {
      pass(wipe_on_release_of_bytes(BytesOps::of<Ops>(), commands, {.device = model_device()}));
    };
  }
};

struct WipeOnReleaseOfBuffers {
  template <class Ops>
  static auto of() {
    return [](bool windowed, const BufferCommands& commands) {
      const auto size = *small_size();
      const auto capacity = *small_size();
      pass(wipe_on_release_of_buffers<Ops>({size, capacity, windowed, false, commands}));
    };
  }
};

/// How many cases, and up to which length of their sequences.
struct Trial {
  int cases = 1000;
  int size_max = 100;
};

/// Tries a property, shrinks what fails, and returns the report, or "".
template <class Callable>
std::string trial(const Trial& asked, Callable&& property) {
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = asked.cases;
  params.maxSize = asked.size_max;
  const auto result = rc::detail::checkTestable(std::forward<Callable>(property),
                                                rc::detail::TestMetadata(), params);
  if (result.template is<rc::detail::SuccessResult>()) return "";
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  return text.str();
}

}  // namespace assay::properties
