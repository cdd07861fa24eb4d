// What should be true of Bytes: contents by value, and who shares what with whom.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "assay/backing/external.hpp"
#include "bytes_commands.hpp"

namespace assay::properties {

/// What a block came from.
enum class Place : std::uint8_t {
  home,      ///< the home's backing, a taken mirror included
  vector,    ///< an adopted vector
  owned,     ///< other foreign memory that may be written
  constant,  ///< foreign memory that may not
  mapped,    ///< a mapped file
  lazy,      ///< a part of an origin, read on demand into a mirror
};

/// A block that the host cannot reach, or a mapped file.
struct ModelOrigin {
  AllocationProperty property = AllocationProperty::native;
  std::size_t kept = 0;  ///< bytes of memory that it stands for
  int file = 0;          ///< number of the file, if it is one
  bool device = false;
};

struct ModelRoot {
  Place place = Place::home;
  bool resident = true;
  std::size_t size = 0;             ///< bytes of the block; of a unit, what a read brings
  int origin = 0;                   ///< of a unit or a mapping
  std::size_t origin_start = 0;     ///< of a unit in its origin
  const std::byte* base = nullptr;  ///< where it lies, once it was seen

  [[nodiscard]] bool immutable() const {
    return place == Place::constant || place == Place::mapped;
  }
  [[nodiscard]] bool unread() const { return !resident; }
};

/// A value of the model: its own copy of the content, and the numbers of its root and share group.
struct ModelValue {
  std::vector<std::byte> content{};
  int root = 0;           ///< 0: no block
  int group = 0;          ///< 0: exclusive, or empty
  std::size_t start = 0;  ///< of the value in its root

  [[nodiscard]] bool shared() const { return group != 0; }
  [[nodiscard]] std::size_t len() const { return content.size(); }
};

class BytesModel {
 public:
  std::array<ModelValue, slot_count> slots{};
  std::vector<ModelRoot> roots{1};
  std::vector<ModelOrigin> origins{1};
  std::vector<bool> spoiled{false};  ///< of each file: was it changed in place?

  [[nodiscard]] ModelRoot& root(const ModelValue& value) {
    return roots[static_cast<std::size_t>(value.root)];
  }
  [[nodiscard]] const ModelOrigin& origin(const ModelValue& value) {
    return origins[static_cast<std::size_t>(root(value).origin)];
  }
  [[nodiscard]] int add(ModelRoot root) {
    roots.push_back(root);
    return static_cast<int>(roots.size()) - 1;
  }
  [[nodiscard]] int add(ModelOrigin origin) {
    origins.push_back(origin);
    return static_cast<int>(origins.size()) - 1;
  }
  int new_group() { return ++groups_; }

  [[nodiscard]] bool unread(const ModelValue& value) { return root(value).unread(); }
  /// Does a value's source answer source_changed for ever?
  [[nodiscard]] bool lost(const ModelValue& value) {
    return spoiled[static_cast<std::size_t>(origin(value).file)] &&
           (unread(value) || root(value).place == Place::mapped);
  }
  [[nodiscard]] int sharers(const ModelValue& value) const {
    int count = 0;
    for (const ModelValue& other : slots) count += other.group == value.group ? 1 : 0;
    return count;
  }
  /// Values on a root.
  [[nodiscard]] int users(int root) const {
    int count = 0;
    for (const ModelValue& other : slots) count += other.root == root ? 1 : 0;
    return count;
  }
  /// Units of an origin that live.
  [[nodiscard]] int units(int origin) const {
    int count = 0;
    for (std::size_t i = 1; i < roots.size(); ++i) {
      const bool unit = roots[i].place == Place::lazy && roots[i].origin == origin;
      if (unit && users(static_cast<int>(i)) != 0) ++count;
    }
    return count;
  }

  [[nodiscard]] bool can_steal(const ModelValue& value) {
    return value.shared() && !unread(value) && !root(value).immutable() && sharers(value) == 1;
  }
  /// Must a write move to a block of its own?
  [[nodiscard]] bool forks(const ModelValue& value) { return value.shared() && !can_steal(value); }

  /// The value takes its range over where it is.
  void steal(ModelValue& value) {
    if (value.shared() && root(value).place == Place::lazy) take_mirror(value);
    value.group = 0;
  }
  void take_mirror(ModelValue& value) {
    root(value).place = Place::home;
    root(value).origin = 0;
  }
  /// The value moves to a block of its own.
  void move_out(ModelValue& value, bool shared) {
    value.root = add(ModelRoot{});
    value.start = 0;
    value.group = shared ? new_group() : 0;
  }
  /// The value stands for `size` bytes from `start` of what it stood for, in a unit of its own
  /// unless it is the sole user of the one it has. **Pre** unread.
  void narrow(ModelValue& value, std::size_t start, std::size_t size, bool sole) {
    if (!sole) {
      ModelRoot unit = root(value);
      unit.origin_start += start;
      value.root = add(unit);
      value.group = new_group();
    }
    root(value).size = size;
  }

 private:
  int groups_ = 0;
};

}  // namespace assay::properties
