#include "assay/backing/make_backing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "assay/backing/by_size.hpp"
#include "assay/backing/device.hpp"
#include "assay/backing/device_pool.hpp"
#include "assay/backing/device_virtual.hpp"
#include "assay/backing/fault.hpp"
#include "assay/backing/heap.hpp"
#include "assay/backing/host.hpp"
#include "assay/backing/managed.hpp"
#include "assay/backing/pinned.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/statistics.hpp"
#include "assay/backing/tracing.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/backing/zero_cache.hpp"
#include "spec_parser.hpp"

namespace assay {
namespace {

using detail::parse_number;
using detail::parse_size;
using detail::spec_quoted;
using detail::SpecFault;
using detail::SpecTerm;

using Built = std::expected<Ref<Backing>, SpecFault>;

/// What a name was given; each maker takes what it knows, and the rest is an error.
class Arguments {
 public:
  explicit Arguments(const SpecTerm& term) : term_(term), taken_(term.arguments.size()) {}

  /// Flags and chains look alike, so the flag of a name is taken before its chain is looked for.
  void take_flag(std::string_view name) {
    flag_ = take([&](const SpecTerm& one) {
      return !one.is_option() && !one.has_arguments && one.word == name;
    });
  }
  [[nodiscard]] bool has_flag() const { return flag_ != nullptr; }
  const SpecTerm* take_option(std::string_view name) {
    return take([&](const SpecTerm& one) { return one.is_option() && one.word == name; });
  }
  const SpecTerm* take_size() {
    return take([](const SpecTerm& one) { return one.is_size(); });
  }
  const SpecTerm* take_chain() {
    return take([](const SpecTerm& one) { return !one.is_option() && !one.is_size(); });
  }
  [[nodiscard]] const SpecTerm* first_left() const {
    const auto left = std::ranges::find(taken_, false);
    return left == taken_.end() ? nullptr : &term_.arguments[index_of(left)];
  }
  [[nodiscard]] const SpecTerm& term() const { return term_; }

  /// Reads a named option into `value` by `read`, if it was given.
  std::optional<SpecFault> option(std::string_view name, auto read, std::uint64_t& value) {
    const SpecTerm* const found = take_option(name);
    if (found == nullptr) return std::nullopt;
    const auto number = read(found->value, found->value_column);
    if (!number) return number.error();
    value = *number;
    return std::nullopt;
  }

 private:
  std::size_t index_of(std::vector<bool>::const_iterator it) const {
    return static_cast<std::size_t>(it - taken_.begin());
  }
  template <class Matches>
  const SpecTerm* take(Matches matches) {
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i] || !matches(term_.arguments[i])) continue;
      taken_[i] = true;
      return &term_.arguments[i];
    }
    return nullptr;
  }

  const SpecTerm& term_;
  std::vector<bool> taken_;
  const SpecTerm* flag_ = nullptr;
};

/// One name of the grammar. An adaptor's maker is given its upstream.
struct Maker {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;
  bool adaptor;
  std::string_view flag;  ///< the one flag it takes, or nothing
  Built (*make)(Arguments& arguments, Ref<Backing> upstream);
};

std::unexpected<SpecFault> refuse(std::size_t column, std::string message) {
  return std::unexpected(SpecFault{column, std::move(message)});
}

Built make_heap(Arguments&, Ref<Backing>) {
  return Heap::make();
}

Built make_virtual(Arguments& arguments, Ref<Backing>) {
  return VirtualMemory::make(arguments.has_flag() ? VirtualMemory::HugePages::advised
                                                  : VirtualMemory::HugePages::system);
}

Built make_host_default(Arguments&, Ref<Backing>) {
  return make_host();
}

/// The context that the option `device` names; without a driver, why there is none.
std::expected<Ref<cuda::PrimaryContext>, SpecFault> context_of(Arguments& arguments) {
  const SpecTerm* const option = arguments.take_option("device");
  std::size_t column = arguments.term().column;
  std::uint64_t ordinal = 0;
  if (option != nullptr) {
    column = option->value_column;
    const auto number = parse_number(option->value, column);
    if (!number) return std::unexpected(number.error());
    if (*number > INT32_MAX) return refuse(column, "device takes the ordinal of a device");
    ordinal = *number;
  }
  if (const SpecTerm* const left = arguments.first_left()) {  // wrong words are wrong everywhere
    return refuse(left->column, fmt::format("{} does not take {}", arguments.term().word,
                                            spec_quoted(left->word)));
  }
  auto context = cuda::PrimaryContext::of_device(static_cast<int>(ordinal));
  if (context) return std::move(context).value();
  const Error& error = context.error();
  const bool no_such_device = error.code == ErrorCode::invalid_argument && option != nullptr;
  return refuse(no_such_device ? column : arguments.term().column,
                no_such_device ? fmt::format("there is no device {}", ordinal)
                               : fmt::format("{} needs a CUDA driver and device: {}",
                                             arguments.term().word, describe(error)));
}

/// What a maker of the driver's backings made, or its error at the name.
template <class Leaf>
Built built(Result<Ref<Leaf>> made, const Arguments& arguments) {
  if (made) return Ref<Backing>(std::move(made).value());
  return refuse(arguments.term().column, describe(made.error()));
}

Built make_device(Arguments& arguments, Ref<Backing>) {
  auto context = context_of(arguments);
  if (!context) return std::unexpected(context.error());
  return built(Device::make(*std::move(context)), arguments);
}

Built make_device_pool(Arguments& arguments, Ref<Backing>) {
  DevicePool::Options options;
  std::uint64_t max_size = 0;
  const SpecTerm* const limit = arguments.take_option("max_size");
  if (limit != nullptr) {
    const auto size = parse_size(limit->value, limit->value_column);
    if (!size) return std::unexpected(size.error());
    if (*size == 0) return refuse(limit->value_column, "max_size takes at least a byte");
    max_size = *size;
  }
  options.max_size = max_size;
  if (auto fault = arguments.option("release_threshold", parse_size, options.release_threshold)) {
    return std::unexpected(*fault);
  }
  auto context = context_of(arguments);
  if (!context) return std::unexpected(context.error());
  return built(DevicePool::make(*std::move(context), options), arguments);
}

Built make_device_virtual(Arguments& arguments, Ref<Backing>) {
  DeviceVirtual::Options options;
  std::uint64_t piece = options.piece_max;
  if (auto fault = arguments.option("piece", parse_size, piece)) return std::unexpected(*fault);
  options.piece_max = piece;
  auto context = context_of(arguments);
  if (!context) return std::unexpected(context.error());
  return built(DeviceVirtual::make(*std::move(context), options), arguments);
}

Built make_pinned(Arguments& arguments, Ref<Backing>) {
  auto context = context_of(arguments);
  if (!context) return std::unexpected(context.error());
  return built(Pinned::make(*std::move(context)), arguments);
}

Built make_managed(Arguments& arguments, Ref<Backing>) {
  // The words first: they are wrong on every host, while a driver is only missing on this one.
  Managed::Options options;
  if (const SpecTerm* const attach = arguments.take_option("attach")) {
    if (attach->value == "host") {
      options.attach = Managed::Attach::host;
    } else if (attach->value != "global") {
      return refuse(attach->value_column, "attach takes global or host");
    }
  }
  if (const SpecTerm* const granularity = arguments.take_option("granularity")) {
    const auto size = parse_size(granularity->value, granularity->value_column);
    if (!size) return std::unexpected(size.error());
    if (!std::has_single_bit(*size) || *size < Managed::granularity_min ||
        *size > Managed::granularity_max) {
      return refuse(granularity->value_column,
                    "granularity takes a power of two from 64KiB to 64MiB");
    }
    options.granularity = *size;
  }
  auto context = context_of(arguments);
  if (!context) return std::unexpected(context.error());
  return built(Managed::make(*std::move(context), options), arguments);
}

Built make_slab_pool(Arguments& arguments, Ref<Backing> upstream) {
  SlabPool::Options options;
  std::uint64_t keep = options.cached_max;
  if (auto fault = arguments.option("keep", parse_size, keep)) return std::unexpected(*fault);
  options.cached_max = keep;
  return SlabPool::make(std::move(upstream), options);
}

Built make_zero_cache(Arguments& arguments, Ref<Backing> upstream) {
  ZeroCache::Options options;
  std::uint64_t keep = options.cached_max;
  if (auto fault = arguments.option("keep", parse_size, keep)) return std::unexpected(*fault);
  options.cached_max = keep;
  if (const SpecTerm* const from = arguments.take_option("from")) {
    const auto size = parse_size(from->value, from->value_column);
    if (!size) return std::unexpected(size.error());
    if (*size < ZeroCache::class_min || *size > ZeroCache::block_max) {
      return refuse(from->value_column, "from takes 256B to 16MiB");
    }
    options.block_min = *size;
  }
  return ZeroCache::make(std::move(upstream), options);
}

Built build(const SpecTerm& term);

/// Takes two chains, so that neither comes as its upstream.
Built make_by_size(Arguments& arguments, Ref<Backing>) {
  const std::size_t column = arguments.term().column;
  const SpecTerm* const size = arguments.take_size();
  if (size == nullptr) return refuse(column, "by_size needs a limit, such as 4MiB");
  const auto limit = parse_size(size->word, size->column);
  if (!limit) return std::unexpected(limit.error());
  std::array<Ref<Backing>, 2> sides;
  for (Ref<Backing>& side : sides) {
    const SpecTerm* const chain = arguments.take_chain();
    if (chain == nullptr) {
      return refuse(column, "by_size needs two upstreams: by_size(SIZE, SMALL, LARGE)");
    }
    Built below = build(*chain);
    if (!below) return below;
    side = *std::move(below);
    if (!BySize::can_join(*side)) {
      return refuse(chain->column, fmt::format("by_size takes memory of the host that no device "
                                               "reaches, not {}",
                                               spec_quoted(chain->word)));
    }
  }
  return BySize::make(*limit, std::move(sides[0]), std::move(sides[1]));
}

Built make_quota(Arguments& arguments, Ref<Backing> upstream) {
  const SpecTerm* const size = arguments.take_size();
  if (size == nullptr) return refuse(arguments.term().column, "quota needs a limit, such as 64MiB");
  const auto limit = parse_size(size->word, size->column);
  if (!limit) return std::unexpected(limit.error());
  return Quota::make(Tenant::make(*limit), std::move(upstream));
}

Built make_statistics(Arguments& arguments, Ref<Backing> upstream) {
  return Statistics::make(std::move(upstream), arguments.has_flag()
                                                   ? Statistics::Precision::exact
                                                   : Statistics::Precision::striped);
}

Built make_tracing(Arguments& arguments, Ref<Backing> upstream) {
  std::uint64_t events = Tracing::default_events_per_thread;
  const SpecTerm* const option = arguments.take_option("events");
  if (option != nullptr) {
    const auto number = parse_number(option->value, option->value_column);
    if (!number) return std::unexpected(number.error());
    if (*number == 0 || *number > Tracing::events_per_thread_max) {
      return refuse(option->value_column, "events takes 1 to 4194304 events a thread");
    }
    events = *number;
  }
  return Tracing::make(std::move(upstream), events);
}

Built make_fault(Arguments& arguments, Ref<Backing> upstream) {
  FaultPlan plan;
  if (auto fault = arguments.option("nth", parse_number, plan.nth)) return std::unexpected(*fault);
  if (auto fault = arguments.option("every", parse_number, plan.every)) {
    return std::unexpected(*fault);
  }
  if (auto fault = arguments.option("after", parse_size, plan.after_bytes)) {
    return std::unexpected(*fault);
  }
  if (const SpecTerm* const code = arguments.take_option("code")) {
    plan.code = error_code_of(code->value);
    if (plan.code == ErrorCode::none) {
      return refuse(
          code->value_column,
          fmt::format("{} is not an error code, such as out_of_memory", spec_quoted(code->value)));
    }
  }
  Fault::On on = Fault::On::allocate;
  if (const SpecTerm* const target = arguments.take_option("on")) {
    if (target->value == "resize") {
      on = Fault::On::resize;
    } else if (target->value == "deallocate") {
      on = Fault::On::deallocate;
    } else if (target->value != "allocate") {
      return refuse(target->value_column, "on takes allocate, resize or deallocate");
    }
  }
  auto made = Fault::make(std::move(upstream));
  made->plan(on, std::move(plan));
  return made;
}

constexpr std::array makers = {
    Maker{"heap", "heap", "aligned host memory from malloc", false, "", make_heap},
    Maker{"virtual", "virtual[(huge)]", "mapped address space; huge asks for huge pages", false,
          "huge", make_virtual},
    Maker{"host", "host", "the default: zero_cache(by_size(4MiB, heap, virtual(huge)))", false, "",
          make_host_default},
    Maker{"managed", "managed[([attach=WHO,] [granularity=SIZE,] [device=N])]",
          "memory that host and device N (0) share; WHO is global or host", false, "",
          make_managed},
    Maker{"pinned", "pinned[(device=N)]", "page-locked host memory that devices reach", false, "",
          make_pinned},
    Maker{"device", "device[(device=N)]", "memory of device N (0), out of the host's reach", false,
          "", make_device},
    Maker{"device_pool", "device_pool[([max_size=SIZE,] [release_threshold=SIZE,] [device=N])]",
          "a pool of the driver's own on device N (0); keeps all that is freed unless told", false,
          "", make_device_pool},
    Maker{"device_virtual", "device_virtual[([piece=SIZE,] [device=N])]",
          "memory of device N (0) that grows in place; mapped in pieces of SIZE (64MiB)", false, "",
          make_device_virtual},
    Maker{"slab_pool", "slab_pool([keep=SIZE,] CHAIN)",
          "pool of size classes; keep bounds its cache (64MiB)", true, "", make_slab_pool},
    Maker{"zero_cache", "zero_cache([keep=SIZE,] [from=SIZE,] CHAIN)",
          "cache of freed blocks, of SIZE (64KiB) to 16MiB; keep bounds it (64MiB)", true, "",
          make_zero_cache},
    Maker{"by_size", "by_size(SIZE, SMALL, LARGE)", "up to SIZE from one chain, above from another",
          false, "", make_by_size},
    Maker{"quota", "quota(SIZE, CHAIN)", "refuses what would pass the limit", true, "", make_quota},
    Maker{"statistics", "statistics([exact,] CHAIN)", "counts calls, blocks and bytes", true,
          "exact", make_statistics},
    Maker{"tracing", "tracing([events=N,] CHAIN)", "records calls; N events a thread (65536)", true,
          "", make_tracing},
    Maker{"fault", "fault([nth=N,] [every=N,] [after=SIZE,] [code=CODE,] [on=CALL,] CHAIN)",
          "makes chosen calls fail; CALL is allocate, resize or deallocate", true, "", make_fault},
};

std::string all_names() {
  std::string names;
  for (const Maker& maker : makers) {
    names += names.empty() ? "" : ", ";
    names += maker.name;
  }
  return names;
}

Built build(const SpecTerm& term) {
  const auto maker = std::ranges::find(makers, term.word, &Maker::name);
  if (term.is_option() || maker == makers.end()) {
    return refuse(term.column, fmt::format("unknown backing {}; there are {}",
                                           spec_quoted(term.word), all_names()));
  }
  Arguments arguments(term);
  if (!maker->flag.empty()) arguments.take_flag(maker->flag);
  Ref<Backing> upstream;
  if (maker->adaptor) {
    const SpecTerm* const chain = arguments.take_chain();
    if (chain == nullptr) {
      return refuse(term.column,
                    fmt::format("{} needs an upstream: {}", maker->name, maker->usage));
    }
    Built below = build(*chain);
    if (!below) return below;
    upstream = *std::move(below);
  }
  Built made = maker->make(arguments, std::move(upstream));
  if (!made) return made;
  if (const SpecTerm* const left = arguments.first_left()) {
    return refuse(left->column, fmt::format("{} does not take {}: {}", maker->name,
                                            spec_quoted(left->word), maker->usage));
  }
  return made;
}

}  // namespace

std::string SpecError::describe() const {
  return fmt::format("{}\n{:>{}}\ncolumn {}: {}", spec, '^', column, column, message);
}

std::expected<Ref<Backing>, SpecError> make_backing(std::string_view spec) {
  try {
    auto term = detail::parse_spec(spec);
    Built made = term ? build(*term) : Built(std::unexpected(term.error()));
    if (made) return *std::move(made);
    std::string shown(spec);
    std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return std::unexpected(
        SpecError{std::move(shown), made.error().column, std::move(made.error().message)});
  } catch (const std::bad_alloc&) {
    return std::unexpected(SpecError{{}, 1, "out of memory"});
  }
}

std::string backing_names_help() {
  std::string help;
  for (const Maker& maker : makers) {
    help += fmt::format("  {}\n      {}\n", maker.usage, maker.summary);
  }
  return help;
}

}  // namespace assay
