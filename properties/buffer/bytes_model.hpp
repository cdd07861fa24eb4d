// What should be true of Bytes: contents by value, and who shares with whom.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "bytes_commands.hpp"

namespace assay::properties {

/// A value of the model: its own copy of the content, and the number of its share group.
struct ModelValue {
  std::vector<std::byte> content{};
  int group = 0;  ///< 0: exclusive, or empty
  bool immutable = false;

  [[nodiscard]] bool shared() const { return group != 0; }
  void become_exclusive() {
    group = 0;
    immutable = false;
  }
  /// Nothing of zero length holds on to a group.
  void normalise() {
    if (content.empty()) become_exclusive();
  }
};

class BytesModel {
 public:
  std::array<ModelValue, slot_count> slots{};

  /// Would a write to this value have to copy? Only if others of its group live, or the memory is
  /// not ours to write.
  [[nodiscard]] bool write_copies(const ModelValue& value) const {
    if (!value.shared()) return false;
    if (value.immutable) return true;
    int sharers = 0;
    for (const ModelValue& other : slots) sharers += other.group == value.group ? 1 : 0;
    return sharers > 1;
  }
  int new_group() { return ++groups_; }

 private:
  int groups_ = 0;
};

}  // namespace assay::properties
