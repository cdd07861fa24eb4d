// The axes of the conformance matrix of Bytes, and which of their combinations can occur.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "axes.def"

namespace assay::matrix {

#define ASSAY_AXIS_VALUE(name) name,
#define ASSAY_AXIS_NAME(name) #name,

enum class Subject : std::uint8_t { ASSAY_MATRIX_SUBJECTS(ASSAY_AXIS_VALUE) };
enum class State : std::uint8_t { ASSAY_MATRIX_STATES(ASSAY_AXIS_VALUE) };
enum class Operation : std::uint8_t { ASSAY_MATRIX_OPERATIONS(ASSAY_AXIS_VALUE) };
enum class Policy : std::uint8_t { ASSAY_MATRIX_POLICIES(ASSAY_AXIS_VALUE) };
enum class Fault : std::uint8_t { ASSAY_MATRIX_FAULTS(ASSAY_AXIS_VALUE) };

inline constexpr std::array subject_names{ASSAY_MATRIX_SUBJECTS(ASSAY_AXIS_NAME)};
inline constexpr std::array state_names{ASSAY_MATRIX_STATES(ASSAY_AXIS_NAME)};
inline constexpr std::array operation_names{ASSAY_MATRIX_OPERATIONS(ASSAY_AXIS_NAME)};
inline constexpr std::array policy_names{ASSAY_MATRIX_POLICIES(ASSAY_AXIS_NAME)};
inline constexpr std::array fault_names{ASSAY_MATRIX_FAULTS(ASSAY_AXIS_NAME)};

#undef ASSAY_AXIS_VALUE
#undef ASSAY_AXIS_NAME

struct Cell {
  Subject subject{};
  State state{};
  Operation operation{};
  Policy policy{};
  Fault fault{};
};

/// "file/read/split_owned/allow_copy/truncated".
[[nodiscard]] std::string name_of(const Cell& cell);

/// Why the combination cannot occur, or null if it can. Static text.
[[nodiscard]] const char* not_applicable(const Cell& cell) noexcept;

[[nodiscard]] constexpr bool is_file(Subject subject) noexcept {
  return subject == Subject::file || subject == Subject::file_view ||
         subject == Subject::mapped_file;
}
/// Is a read of the subject's source made to fail?
[[nodiscard]] constexpr bool has_failing_source(Subject subject) noexcept {
  return subject == Subject::device_lazy || subject == Subject::watched_source;
}

}  // namespace assay::matrix
