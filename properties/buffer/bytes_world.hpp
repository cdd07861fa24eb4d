// BytesWorld: real values and the model side by side; one branch per operation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "bytes_model.hpp"
#include "bytes_ops.hpp"

namespace assay::properties {

/// Immutable foreign memory that every world may use.
inline std::span<const std::byte> constant_memory() {
  static const auto memory = test::counting(4096, 100);
  return memory;
}

template <class Ops>
class BytesWorld {
 public:
  explicit BytesWorld(Wipe wipe, std::byte fresh_fill = std::byte{0xcd})
      : backing_(CheckingBacking::make({.fresh_fill = fresh_fill})),
        home_(Home::make(backing_, {.wipe = wipe}).value()) {}

  /// Runs the commands, drops everything and returns the first thing that was wrong, or "".
  std::string run(const BytesCommands& commands) {
    for (std::size_t i = 0; i < commands.size() && fault_.empty(); ++i) {
      step(commands[i]);
      check_values();
      if (!fault_.empty()) fault_ = fmt::format("step {}: {}", i, fault_);
    }
    for (Bytes& value : values_) Ops::drop(value, *backing_);
    if (fault_.empty() && backing_->usage().live_blocks != 0) fault_ = "a block leaked";
    if (fault_.empty() && !backing_->faults.empty()) fault_ = backing_->faults.front();
    return fault_;
  }
  [[nodiscard]] CheckingBacking& backing() { return *backing_; }

 private:
  /// What a failing operation may not change.
  struct Before {
    const std::byte* data;
    std::size_t len;
    std::size_t capacity;
    bool shared;
    friend bool operator==(const Before&, const Before&) = default;
  };
  static Before state_of(const Bytes& value) {
    return {value.data(), value.len(), value.capacity(), value.is_shared()};
  }
  static std::size_t limited(std::size_t value, std::size_t limit) {
    return limit == 0 ? 0 : value % (limit + 1);
  }
  void expect(bool good, const char* what) {
    if (!good && fault_.empty()) fault_ = what;
  }

  /// Judges the outcome of an operation on slots a and b: copies as predicted, or an error that
  /// changed nothing.
  template <class Call, class Success>
  void judge(const BytesCommand& command, std::uint64_t copies_min, std::uint64_t copies_max,
             ErrorCode expected, Call&& call, Success&& success) {
    Bytes& a = values_[command.a % slot_count];
    Bytes& b = values_[command.b % slot_count];
    const Before a_before = state_of(a);
    const Before b_before = state_of(b);
    const std::uint64_t copied_before = payload_bytes_copied();
    auto result = call(a, b);
    const std::uint64_t copied = payload_bytes_copied() - copied_before;
    if (!result) {
      const ErrorCode code = result.error().code;
      expect(code == expected || code == ErrorCode::out_of_memory, "an unexpected error");
      expect(state_of(a) == a_before && state_of(b) == b_before, "a failure changed something");
      return;
    }
    expect(expected == ErrorCode::none || expected == ErrorCode::not_adjacent,
           "an error was expected");
    expect(copied >= copies_min && copied <= copies_max, "wrong number of bytes copied");
    success(result, a, b);
  }

  void put(std::size_t slot, Bytes value, ModelValue model) {
    Ops::drop(values_[slot], *backing_);
    values_[slot] = std::move(value);
    model_.slots[slot] = std::move(model);
    model_.slots[slot].normalise();
  }

  void step(const BytesCommand& command) {
    const std::size_t slot = command.a % slot_count;
    const std::size_t other = command.b % slot_count;
    ModelValue& model = model_.slots[slot];
    Bytes& value = values_[slot];
    const std::size_t len = model.content.size();
    const std::uint64_t fork = model_.write_copies(model) ? len : 0;
    switch (command.operation) {
      case BytesOperation::make:
      case BytesOperation::make_room:
      case BytesOperation::make_constant: make(command, slot); break;
      case BytesOperation::drop:
        Ops::drop(value, *backing_);
        model = {};
        break;
      case BytesOperation::move:
        if (slot == other) break;
        put(other, std::move(value), std::exchange(model, {}));
        break;
      case BytesOperation::clone:
        if (slot == other) break;
        judge(
            command, model.shared() ? 0 : len, model.shared() ? 0 : len, ErrorCode::none,
            [](Bytes& a, Bytes&) { return Ops::clone(a); },
            [&](auto& made, Bytes&, Bytes&) { put(other, std::move(made).value(), model); });
        break;
      case BytesOperation::view: view(command, slot, other); break;
      case BytesOperation::split: split(command, slot, other); break;
      case BytesOperation::join: join(command, slot, other); break;
      case BytesOperation::share:
        judge(
            command, 0, 0, ErrorCode::none, [](Bytes& a, Bytes&) { return Ops::share(a); },
            [&](auto&, Bytes&, Bytes&) {
              if (!model.shared()) model.group = model_.new_group();
              model.normalise();
            });
        break;
      case BytesOperation::write: write(command, model, fork); break;
      case BytesOperation::extend:
      case BytesOperation::extend_self: extend(command, model, fork); break;
      case BytesOperation::resize:
      case BytesOperation::reserve:
      case BytesOperation::truncate:
      case BytesOperation::compact: change_size(command, model, fork); break;
      case BytesOperation::count: break;
    }
  }

  void make(const BytesCommand& command, std::size_t slot) {
    const std::size_t size = command.x;
    ModelValue model;
    Result<Bytes> made = Bytes();
    if (command.operation == BytesOperation::make) {
      model.content = test::counting(size, command.y);
      made = Bytes::from_span(model.content, *home_);
    } else if (command.operation == BytesOperation::make_room) {
      made = Bytes::with_capacity(size, *home_);
    } else {
      const auto memory = constant_memory().first(limited(size, constant_memory().size()));
      model.content.assign(memory.begin(), memory.end());
      model.group = model_.new_group();
      model.immutable = true;
      made = Bytes::from_external(ExternalMemory::constant(memory), *home_);
    }
    if (!made) {
      expect(made.error().code == ErrorCode::out_of_memory, "an unexpected error");
      return;
    }
    put(slot, std::move(made).value(), std::move(model));
  }

  void view(const BytesCommand& command, std::size_t slot, std::size_t other) {
    if (slot == other) return;
    const ModelValue& model = model_.slots[slot];
    const std::size_t len = model.content.size();
    const std::size_t start = limited(command.x, len);
    const std::size_t end = start + limited(command.y, len - start + 1);  // one too far at most
    const bool in_range = end <= len;
    const bool exclusive = !model.shared() && values_[slot].has_block();
    const ErrorCode expected = !in_range   ? ErrorCode::out_of_range
                               : exclusive ? ErrorCode::not_supported
                                           : ErrorCode::none;
    judge(
        command, 0, 0, expected, [&](Bytes& a, Bytes&) { return Ops::view(a, start, end); },
        [&](auto& made, Bytes& a, Bytes&) {
          Bytes window = std::move(made).value();
          expect(window.is_empty() || window.data() == a.data() + start, "a view does not alias");
          ModelValue part = model;
          part.content = {model.content.begin() + static_cast<std::ptrdiff_t>(start),
                          model.content.begin() + static_cast<std::ptrdiff_t>(end)};
          put(other, std::move(window), std::move(part));
        });
  }

  void split(const BytesCommand& command, std::size_t slot, std::size_t other) {
    if (slot == other) return;
    ModelValue& model = model_.slots[slot];
    const std::size_t offset = limited(command.x, model.content.size() + 1);
    const bool in_range = offset <= model.content.size();
    const std::uint64_t copies =
        command.owned && model_.write_copies(model) ? model.content.size() : 0;
    judge(
        command, copies, copies, in_range ? ErrorCode::none : ErrorCode::out_of_range,
        [&](Bytes& a, Bytes&) {
          return Ops::split(a, offset, command.owned ? SplitPolicy::owned : SplitPolicy::shared);
        },
        [&](auto& made, Bytes&, Bytes&) {
          if (command.owned) model.become_exclusive();
          ModelValue right = model;
          const auto middle = model.content.begin() + static_cast<std::ptrdiff_t>(offset);
          right.content = {middle, model.content.end()};
          model.content.resize(offset);
          model.normalise();
          put(other, std::move(made).value(), std::move(right));
        });
  }

  void join(const BytesCommand& command, std::size_t slot, std::size_t other) {
    if (slot == other) return;
    ModelValue& left = model_.slots[slot];
    ModelValue& right = model_.slots[other];
    // Whether two values are neighbours is the system's to know; that neither changes if they are
    // not, and that nothing is copied if they are, is judged here.
    judge(
        command, 0, 0, ErrorCode::not_adjacent,
        [](Bytes& a, Bytes& b) {
          auto joined = Ops::join(a, b);
          if (!joined && joined.error().code == ErrorCode::not_unique) {
            return Result<void>(Error::make(ErrorCode::not_adjacent, "join"));
          }
          return joined;
        },
        [&](auto&, Bytes&, Bytes& b) {
          expect(b.is_empty(), "join left something behind");
          if (left.content.empty()) {
            left = right;
          } else if (!right.content.empty()) {
            left.content.insert(left.content.end(), right.content.begin(), right.content.end());
            if (left.group != right.group) left.become_exclusive();
          }
          right = {};
        });
  }

  void write(const BytesCommand& command, ModelValue& model, std::uint64_t fork) {
    judge(
        command, fork, fork, ErrorCode::none, [](Bytes& a, Bytes&) { return Ops::write(a); },
        [&](auto& made, Bytes&, Bytes&) {
          const std::span<std::byte> bytes = made.value();
          expect(bytes.size() == model.content.size(), "write gives another range");
          for (std::size_t i = limited(command.x, bytes.size()); i < bytes.size(); ++i) {
            bytes[i] = model.content[i] = static_cast<std::byte>(command.y % 255 + 1);
          }
          model.become_exclusive();
        });
  }

  void extend(const BytesCommand& command, ModelValue& model, std::uint64_t fork) {
    const bool self = command.operation == BytesOperation::extend_self;
    const auto added = self ? model.content : test::counting(command.x, command.y);
    if (model.content.size() + added.size() > 20'000) return;
    const std::uint64_t moved = added.empty() ? 0 : model.content.size();
    judge(
        command, added.size() + (added.empty() ? 0 : fork), added.size() + moved, ErrorCode::none,
        [&](Bytes& a, Bytes&) { return Ops::extend(a, self ? a.span() : added, *backing_); },
        [&](auto&, Bytes&, Bytes&) {
          model.content.insert(model.content.end(), added.begin(), added.end());
          if (!added.empty()) model.become_exclusive();
        });
  }

  void change_size(const BytesCommand& command, ModelValue& model, std::uint64_t fork) {
    const std::size_t len = model.content.size();
    const std::size_t x = command.x;
    const auto set = [&](std::size_t size) {
      if (size > len) model.become_exclusive();
      model.content.resize(size);
      model.normalise();
    };
    const auto call = [&](Bytes& a, Bytes&) -> Result<void> {
      switch (command.operation) {
        case BytesOperation::resize: return Ops::resize(a, x);
        case BytesOperation::reserve: return a.reserve(x);
        case BytesOperation::truncate: Ops::truncate(a, limited(x, len)); return {};
        default: return a.compact();
      }
    };
    const bool grows = command.operation == BytesOperation::resize ? x > len : x > 0;
    const bool may_move = command.operation != BytesOperation::truncate;
    const bool must_fork = may_move && command.operation != BytesOperation::compact && grows;
    judge(command, must_fork ? fork : 0, may_move ? len : 0, ErrorCode::none, call,
          [&](auto&, Bytes& a, Bytes&) {
            if (command.operation == BytesOperation::resize) set(x);
            if (command.operation == BytesOperation::truncate) set(limited(x, len));
            if (command.operation == BytesOperation::reserve && x > 0) {
              model.become_exclusive();
              expect(a.capacity() >= len + x, "reserve made too little room");
            }
            if (command.operation == BytesOperation::compact && model.shared()) {
              // A copy is a group of its own; in place nothing has changed.
              if (payload_bytes_copied() != copied_at_check_) {
                model.group = model_.new_group();
                model.immutable = false;
              }
            }
          });
  }

  /// Every value is as the model says, and no exclusive range meets any other value.
  void check_values() {
    for (std::size_t i = 0; i < slot_count; ++i) {
      const Bytes& value = values_[i];
      const ModelValue& model = model_.slots[i];
      expect(std::equal(value.begin(), value.end(), model.content.begin(), model.content.end()),
             "content differs from the model");
      expect(value.is_shared() == model.shared(), "shared differs from the model");
      expect(value.capacity() >= value.len(), "capacity below the length");
      expect(is_aligned(reinterpret_cast<std::uintptr_t>(value.data()), value.align()),
             "align() is not true of the pointer");
      for (std::size_t j = 0; j < slot_count && value.is_exclusive(); ++j) {
        const Bytes& other = values_[j];
        if (i == j || !other.has_block()) continue;
        expect(value.data() + value.capacity() <= other.data() ||
                   other.data() + other.capacity() <= value.data(),
               "an exclusive range overlaps another value");
      }
    }
    copied_at_check_ = payload_bytes_copied();
  }

  Ref<CheckingBacking> backing_;
  Ref<Home> home_;
  std::array<Bytes, slot_count> values_;
  BytesModel model_;
  std::string fault_;
  std::uint64_t copied_at_check_ = payload_bytes_copied();
};

}  // namespace assay::properties
