// What is held below never passes the limit, whoever asks at the same time; and as every block that
// fits alone is admitted when nothing else is out, a quiet account is empty again. Judged by the
// upstream, not by the account. Closes ub:W-02, ub:W-31.
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "checking_upstream.hpp"
#include "properties.hpp"

namespace assay::tenant {
namespace {

constexpr int thread_count = 4;
constexpr int steps = 4000;
constexpr int steps_with_memory = 300;  // each is calls of a driver

/// Allocates and frees one to three blocks at a time until the limit was passed once.
void storm(Backing& chain, const CheckingUpstream& upstream, std::uint64_t random) {
  const int last = CheckingUpstream::leaf ? steps_with_memory : steps;
  for (int step = 0; step < last && !upstream.passed_limit(); ++step) {
    std::vector<std::pair<Block, Request>> held;
    random = random * 6364136223846793005u + 1442695040888963407u;
    for (std::uint64_t i = 0; i <= (random >> 60) % 3; ++i) {
      const Request request{.size = 1 + (random >> 40) % (2 * CheckingUpstream::page)};
      if (const auto block = chain.allocate(request)) held.emplace_back(block.value(), request);
    }
    for (const auto& [block, request] : held) chain.deallocate(block, request);
  }
}

}  // namespace

std::optional<std::string> limit_holds_under_threads(AccountFactory make) {
  const std::uint64_t limit = 5 * CheckingUpstream::page;
  const auto upstream = CheckingUpstream::make();
  upstream->limit = limit;
  const auto account = make(limit, upstream);
  std::vector<std::thread> threads;
  for (int i = 1; i <= thread_count; ++i) {
    threads.emplace_back([&, i] {
      storm(*account.chain, *upstream, static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u);
    });
  }
  for (auto& thread : threads) thread.join();
  if (upstream->passed_limit()) {
    return fmt::format("{} bytes were held under a limit of {}", upstream->most_held(), limit);
  }
  if (account.charged() != 0) {
    return fmt::format("{} bytes are charged with nothing held", account.charged());
  }
  // What never passed is not enough: all of the limit must serve.
  const Request all{.size = limit};
  const auto block = account.chain->allocate(all);
  if (!block) return "exactly the limit is refused";
  account.chain->deallocate(block.value(), all);
  return std::nullopt;
}

}  // namespace assay::tenant
