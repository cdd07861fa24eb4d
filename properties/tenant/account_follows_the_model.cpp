// A charge account is a sum: it is what is held below, it never passes the limit, and it refuses
// only what does not fit. A state machine over allocate, resize, free and new limits, with frees
// that fail now and then; the model is one number and a table. Closes ub:W-01, ub:W-04, ub:W-27,
// ub:W-42, fault:B-20.
#include <array>
#include <sstream>

#include <rapidcheck.h>
#include <rapidcheck/state.h>

#include "checking_upstream.hpp"
#include "properties.hpp"

namespace assay::tenant {
namespace {

constexpr std::size_t slots = 6;
const std::size_t& page = CheckingUpstream::page;

/// What should be true.
struct Model {
  std::uint64_t limit = 16 * page;
  std::uint64_t charged = 0;
  std::uint64_t quarantined = 0;
  std::array<std::size_t, slots> sizes{};  // 0: the slot is empty
};

/// The system: an account over an upstream that knows what is out.
struct System {
  Ref<CheckingUpstream> upstream;
  AccountUnderTest account;
  std::array<Block, slots> blocks{};
  std::array<Request, slots> requests{};
};

std::uint64_t cost(std::size_t size) {
  return align_up(size, page);
}

using Command = rc::state::Command<Model, System>;

void agree(const Model& after, const System& system) {
  RC_ASSERT(system.account.charged() == after.charged);
  RC_ASSERT(system.account.quarantined() == after.quarantined);
  RC_ASSERT(system.upstream->held() == after.charged);
}

std::size_t any_size() {
  return *rc::gen::weightedOneOf<std::size_t>(
      {{3, rc::gen::inRange<std::size_t>(1, 4 * page)},
       {2, rc::gen::map(rc::gen::inRange<std::size_t>(1, 17), [](auto n) { return n * page; })}});
}

struct Allocate : Command {
  std::size_t slot = *rc::gen::inRange<std::size_t>(0, slots);
  std::size_t size = any_size();

  void checkPreconditions(const Model& model) const override { RC_PRE(model.sizes[slot] == 0); }
  void apply(Model& model) const override {
    if (model.charged + cost(size) > model.limit) return;
    model.charged += cost(size);
    model.sizes[slot] = size;
  }
  void run(const Model& model, System& system) const override {
    const Request request{.size = size};
    const auto block = system.account.chain->allocate(request);
    RC_ASSERT(block.has_value() == (model.charged + cost(size) <= model.limit));
    if (block) {
      system.blocks[slot] = block.value();
      system.requests[slot] = request;
    } else {
      RC_ASSERT(block.error().code == ErrorCode::quota_exceeded);
      RC_ASSERT(block.error().in_use == model.charged);
      RC_ASSERT(block.error().limit == model.limit);
    }
    agree(nextState(model), system);
  }
  void show(std::ostream& out) const override { out << "allocate " << slot << ' ' << size; }
};

struct Resize : Command {
  std::size_t slot = *rc::gen::inRange<std::size_t>(0, slots);
  std::size_t size = any_size();

  [[nodiscard]] bool fits(const Model& model) const {
    return cost(size) <= cost(model.sizes[slot]) ||
           model.charged - cost(model.sizes[slot]) + cost(size) <= model.limit;
  }
  void checkPreconditions(const Model& model) const override { RC_PRE(model.sizes[slot] != 0); }
  void apply(Model& model) const override {
    if (!fits(model)) return;
    model.charged += cost(size) - cost(model.sizes[slot]);
    model.sizes[slot] = size;
  }
  void run(const Model& model, System& system) const override {
    Request to = system.requests[slot];
    to.size = size;
    const auto block =
        system.account.chain->resize(system.blocks[slot], system.requests[slot], to, MayMove::yes);
    RC_ASSERT(block.has_value() == fits(model));
    if (block) {
      system.blocks[slot] = block.value();
      system.requests[slot] = to;
    }
    agree(nextState(model), system);
  }
  void show(std::ostream& out) const override { out << "resize " << slot << ' ' << size; }
};

struct Free : Command {
  std::size_t slot = *rc::gen::inRange<std::size_t>(0, slots);
  bool fails = *rc::gen::weightedElement<bool>({{4, false}, {1, true}});

  void checkPreconditions(const Model& model) const override { RC_PRE(model.sizes[slot] != 0); }
  void apply(Model& model) const override {
    if (fails) {
      model.quarantined += cost(model.sizes[slot]);
    } else {
      model.charged -= cost(model.sizes[slot]);
    }
    model.sizes[slot] = 0;
  }
  void run(const Model& model, System& system) const override {
    if (fails) system.upstream->fail_free_in = 1;
    const Freed freed =
        system.account.chain->deallocate(system.blocks[slot], system.requests[slot]);
    system.blocks[slot] = {};
    RC_ASSERT(freed == (fails ? Freed::failed : Freed::now));
    agree(nextState(model), system);
  }
  void show(std::ostream& out) const override {
    out << (fails ? "free (fails) " : "free ") << slot;
  }
};

struct SetLimit : Command {
  // Mostly whole pages: only then can the account be filled to the last byte.
  std::uint64_t limit = *rc::gen::weightedOneOf<std::uint64_t>(
      {{4, rc::gen::map(rc::gen::inRange<std::uint64_t>(0, 17), [](auto n) { return n * page; })},
       {1, rc::gen::inRange<std::uint64_t>(0, 32 * page)}});

  void apply(Model& model) const override { model.limit = limit; }
  void run(const Model& model, System& system) const override {
    system.account.set_limit(limit);
    agree(nextState(model), system);
  }
  void show(std::ostream& out) const override { out << "set_limit " << limit; }
};

/// After all: what is not in quarantine is nothing.
void give_all_back(System& system) {
  for (std::size_t slot = 0; slot < slots; ++slot) {
    if (!system.blocks[slot]) continue;
    system.account.chain->deallocate(system.blocks[slot], system.requests[slot]);
  }
}

}  // namespace

std::optional<std::string> account_follows_the_model(AccountFactory make) {
  rc::detail::TestParams parameters;
  parameters.seed = 20240229;  // a fixed seed: the mutants' deaths repeat
  parameters.maxSuccess = 300;
  parameters.maxSize = 60;
  const auto property = [make] {
    System system{.upstream = CheckingUpstream::make(), .account = {}};
    system.account = make(Model{}.limit, system.upstream);
    try {
      rc::state::check(Model{}, system, [](const Model&) {
        return rc::state::gen::execOneOfWithArgs<Allocate, Allocate, Allocate, Resize, Free,
                                                 SetLimit>()();
      });
    } catch (...) {
      give_all_back(system);
      throw;
    }
    give_all_back(system);
    RC_ASSERT(system.account.charged() == system.account.quarantined());
  };
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata{}, parameters);
  if (result.is<rc::detail::SuccessResult>()) return std::nullopt;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  return text.str();
}

}  // namespace assay::tenant
