// Row: one operation, and the yardstick that it is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "assay/base/error.hpp"

namespace assay::yardstick {

/// What every message of an error row starts with, and that of a row which cannot be measured here.
inline constexpr std::string_view error_prefix = "assay: ";
inline constexpr std::string_view skip_prefix = "assay: skipped: ";

/// The two sides of a row with all that they need, prepared by the constructor. Each call does the
/// same work again. **Threads** made, used and destroyed by one; `operation` may use others.
class Pair {
 public:
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  virtual ~Pair() = default;

  /// Proves that the operation does what its row says: empty, or what is wrong.
  [[nodiscard]] virtual std::string verify() = 0;
  virtual void operation(std::size_t times) = 0;
  virtual void yardstick(std::size_t times) = 0;
  /// Of a row with `undone`: brings back what one call of `operation` used up, untimed.
  virtual void undo() {}
  /// Payload bytes that other threads copied for the operation so far.
  [[nodiscard]] virtual std::uint64_t copied_elsewhere() const noexcept { return 0; }

  /// The first failure of an operation, or empty.
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

 protected:
  void fail(const Error& error) {
    if (trouble_.empty()) trouble_ = describe(error);
  }

 private:
  std::string trouble_;
};

struct Row {
  std::string_view name;       ///< the goal's id first: B4.split_owned
  std::size_t size = 0;        ///< of the payload in bytes; 0: none
  std::string_view summary;    ///< the operation
  std::string_view yardstick;  ///< what it is held against
  double limit = 0;            ///< most times the yardstick that the operation may take
  std::size_t items = 1;       ///< operations in one call; times are told for one operation
  bool undone = false;         ///< each call is timed alone and undone afterwards
  unsigned threads = 1;
  std::optional<std::uint64_t> copied{};  ///< payload bytes that one operation copies, exactly
  bool no_faults = false;                 ///< in the steady state no operation faults a page in
  /// Changes whenever the work does.
  std::string_view source_version = "1";
  /// Throws what describes the error if the row cannot be prepared.
  std::unique_ptr<Pair> (*make)(std::size_t size) = nullptr;
};

/// `make` of a row.
template <class Made>
std::unique_ptr<Pair> make_pair_of(std::size_t size) {
  return std::make_unique<Made>(size);
}

/// B4.split_owned/size:4096
[[nodiscard]] std::string id_of(const Row& row);

/// Every row, in the order of rows/manifest.def.
[[nodiscard]] std::span<const Row> all_rows();

}  // namespace assay::yardstick
