// A program that replays on subjects which misbehave; not in any list of subjects.
// demo-replay SUBJECT prints the row that such a subject gets.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "child.hpp"

namespace assay::replay {
namespace {

enum class Behaviour { crashes, hangs, exits, chats, cannot_be_made, throws };

class Demo final : public Backing {
 public:
  explicit Demo(Behaviour behaviour)
      : Backing({.id = "demo", .capabilities = Capabilities::host_access}), behaviour_(behaviour) {}

 private:
  Block do_allocate(const Request& request, Error&) noexcept override {
    if (behaviour_ == Behaviour::crashes) std::abort();
    if (behaviour_ == Behaviour::exits) ::_exit(7);
    if (behaviour_ == Behaviour::chats) fmt::print("demo says hello");
    while (behaviour_ == Behaviour::hangs) ::pause();
    return {reinterpret_cast<std::uintptr_t>(std::aligned_alloc(16, align_up(request.size, 16))),
            request.size};
  }
  Freed do_deallocate(Block block, const Release&) noexcept override {
    std::free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(block.address)));
    return Freed::now;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return request.size;
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {}; }
  Behaviour behaviour_;
};

template <Behaviour behaviour>
Result<Ref<Backing>> make(const harness::SubjectContext&) {
  if constexpr (behaviour == Behaviour::throws) throw std::runtime_error("demo threw");
  if constexpr (behaviour == Behaviour::cannot_be_made) {
    return Error::make(ErrorCode::not_supported, "make", "demo");
  }
  return Ref<Backing>(Ref<Demo>::adopt(new Demo(behaviour)));
}

constexpr harness::Subject subjects[] = {
    {.id = "crashes", .summary = "", .make = make<Behaviour::crashes>},
    {.id = "hangs", .summary = "", .make = make<Behaviour::hangs>},
    {.id = "exits", .summary = "", .make = make<Behaviour::exits>},
    {.id = "chats", .summary = "", .make = make<Behaviour::chats>},
    {.id = "cannot_be_made", .summary = "", .make = make<Behaviour::cannot_be_made>},
    {.id = "throws", .summary = "", .make = make<Behaviour::throws>},
    {.id = "absent",
     .summary = "",
     .make = make<Behaviour::chats>,
     .preload = "libassay-absent.so.1",
     .package = "libabsent1"},
};

const harness::Subject* find(std::string_view id) {
  for (const harness::Subject& subject : subjects) {
    if (subject.id == id) return &subject;
  }
  return nullptr;
}

int main_of(std::span<char* const> words) {
  if (is_child(words)) return child_main(words, *find(words[3]));
  const harness::Subject* const subject = words.size() == 2 ? find(words[1]) : nullptr;
  if (subject == nullptr) return exit_usage;
  harness::Trace trace;
  trace.events = {{.id = 0, .size = 100}, {.sequence = 1, .id = 1, .size = 5}};
  const auto plan = plan_replay(trace, {}, harness::PlanThreads::recorded);
  const auto shared = SharedPlan::make(plan.view());
  Options options;
  options.timeout = std::chrono::seconds(1);
  const Row row = run_subject(*subject, shared.value(), options);
  fmt::print("{}\n", to_json(row).dump());
  return exit_good;
}

}  // namespace
}  // namespace assay::replay

int main(int count, char** arguments) {
  try {
    return assay::replay::main_of({arguments, static_cast<std::size_t>(count)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "demo-replay: %s\n", error.what());
    return assay::replay::exit_internal;
  }
}
