// HandleTable: handles that carry a generation, so that a dead one is told from one never given
// out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace assay::cuda::model {

/// Handle values are `tag | generation | index`, never addresses, never reused.
///
/// **Threads** safe from any thread; its lock calls nothing out.
template <class Object, class Handle, std::uint8_t tag>
class HandleTable {
 public:
  enum class State : std::uint8_t { live, dead, unknown };
  struct Found {
    State state = State::unknown;
    std::shared_ptr<Object> object;  ///< null unless live
  };

  Handle insert(std::shared_ptr<Object> object) {
    const std::scoped_lock lock(mutex_);
    std::size_t index = slots_.size();
    if (free_.empty()) {
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Slot& slot = slots_[index];
    ++slot.generation;
    slot.object = std::move(object);
    ++live_;
    return encode(slot.generation, index);
  }

  [[nodiscard]] Found find(Handle handle) const {
    const std::scoped_lock lock(mutex_);
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t index = value & index_mask;
    const std::uint64_t generation = (value >> index_bits) & generation_mask;
    if (value >> tag_shift != tag || index >= slots_.size() || generation == 0 ||
        generation > slots_[index].generation) {
      return {};
    }
    const Slot& slot = slots_[index];
    if (generation < slot.generation || slot.object == nullptr) return {State::dead, nullptr};
    return {State::live, slot.object};
  }

  /// Takes the object out; null if the handle is not live.
  std::shared_ptr<Object> erase(Handle handle) {
    if (find(handle).state != State::live) return nullptr;
    const std::scoped_lock lock(mutex_);
    const std::size_t index = reinterpret_cast<std::uintptr_t>(handle) & index_mask;
    Slot& slot = slots_[index];
    if (slot.object == nullptr || encode(slot.generation, index) != handle) return nullptr;
    if (slot.generation < generation_mask) free_.push_back(index);
    --live_;
    return std::move(slot.object);
  }

  [[nodiscard]] std::uint64_t live() const {
    const std::scoped_lock lock(mutex_);
    return live_;
  }

  [[nodiscard]] std::vector<std::pair<Handle, std::shared_ptr<Object>>> all() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::pair<Handle, std::shared_ptr<Object>>> list;
    for (std::size_t index = 0; index < slots_.size(); ++index) {
      if (slots_[index].object == nullptr) continue;
      list.emplace_back(encode(slots_[index].generation, index), slots_[index].object);
    }
    return list;
  }

 private:
  struct Slot {
    std::uint64_t generation = 0;
    std::shared_ptr<Object> object;
  };
  static constexpr unsigned index_bits = 28;
  static constexpr unsigned tag_shift = 56;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << index_bits) - 1;
  static constexpr std::uint64_t generation_mask =
      (std::uint64_t{1} << (tag_shift - index_bits)) - 1;

  static Handle encode(std::uint64_t generation, std::size_t index) {
    return reinterpret_cast<Handle>(std::uint64_t{tag} << tag_shift | generation << index_bits |
                                    index);
  }

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
  std::uint64_t live_ = 0;
};

}  // namespace assay::cuda::model
