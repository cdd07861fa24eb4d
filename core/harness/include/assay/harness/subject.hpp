// Subject: an allocator under test, and the registry of all that are built in.
#pragma once

#include <span>
#include <string_view>

#include "assay/backing/backing.hpp"

namespace assay::harness {

/// Whose allocator it is. A failure of one of ours fails a run; a foreign one is a finding.
enum class Origin : std::uint8_t {
  assay,    ///< shipped by this project
  system,   ///< the C or C++ library's
  foreign,  ///< someone else's library
  mutant,   ///< broken on purpose: a property must catch it
  demo,     ///< crashes or hangs on purpose, to show what a row of that kind looks like
};

/// What a subject's factory may build upon.
struct SubjectContext {
  /// Where the subject should take its memory from, if it is an adaptor over an upstream; null
  /// means its own default. Harnesses pass a checking backing here.
  Ref<Backing> upstream;
};

/// One allocator under test. Every subject runs in a child process of its own.
struct Subject {
  std::string_view id;  ///< [a-z0-9_.+-]
  Origin origin = Origin::assay;
  std::string_view summary;  ///< one line for lists and reports
  /// Builds it in this process. For a process subject this is the plain malloc adaptor, to be
  /// called in a child that was started with `preload`.
  Result<Ref<Backing>> (*make)(const SubjectContext& context) = nullptr;
  std::string_view preload{};  ///< shared library that replaces malloc, such as "libjemalloc.so.2"
  std::string_view package{};  ///< Debian package to install when the library is absent
  std::string_view killed_by{};  ///< mutants: the property that must catch it
  bool needs_driver = false;     ///< its memory is a CUDA driver's: made in forked processes only
  /// What the checking backing below it stands upon; null: heap.
  Result<Ref<Backing>> (*leaf)() = nullptr;

  [[nodiscard]] bool is_process() const noexcept { return !preload.empty(); }
};

[[nodiscard]] std::string_view name_of(Origin origin) noexcept;

/// Every built-in subject, in the order of the manifest (core/harness/subjects/manifest.def).
[[nodiscard]] std::span<const Subject* const> subjects() noexcept;

/// The subject of that id, or null.
[[nodiscard]] const Subject* find_subject(std::string_view id) noexcept;

/// In a child started with `subject.preload`: does malloc really come from that library? Returns
/// the path of the library that provides malloc, or an error if it is another one (a bad preload
/// only warns and silently runs the C library's). Asked with dladdr.
Result<std::string_view> prove_preload(const Subject& subject) noexcept;

}  // namespace assay::harness
