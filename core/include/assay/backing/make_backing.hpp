// make_backing: a chain of backings from one line of text.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "assay/backing/backing.hpp"

namespace assay {

/// Why a spec was refused, and where.
struct SpecError {
  std::string spec;        ///< as given; control characters shown as '?'
  std::size_t column = 1;  ///< from 1
  std::string message;     ///< one line

  /// Two lines and the message: the spec, a caret below the place, what is wrong there.
  [[nodiscard]] std::string describe() const;
};

/// Builds what a spec says, such as `slab_pool(quota(512MiB, virtual))`.
///
///     chain  = name [ "(" argument { "," argument } ")" ]
///     argument = chain | size | flag | option "=" value
///     size   = digits [ "B" | "KiB" | "MiB" | "GiB" ]
///
/// An adaptor takes exactly one chain, its upstream. Blanks count for nothing between words.
/// A quota in a spec has a tenant of its own. **Errors** anything that is not of the grammar, an
/// unknown name, unit, option or value, a size past size_max, chains deeper than 32.
[[nodiscard]] std::expected<Ref<Backing>, SpecError> make_backing(std::string_view spec);

/// One line for each name that a spec may use: how it is written and what it is.
[[nodiscard]] std::string backing_names_help();

}  // namespace assay
