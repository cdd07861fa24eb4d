// SharedCase: the one mapped file through which the parent and a child speak.
//
//   parent writes          settings, commands          before a case
//   server writes          facts once, then status     when it starts; after each case
//   case's process writes  step, outcomes, figures     step *before* each command
//
// Plain data of fixed layout, without pointers: both kinds of child and the parent map it at
// addresses of their own, and it outlives a child that crashed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "assay/harness/command.hpp"

namespace assay::harness {

inline constexpr std::uint32_t shared_case_magic = 0x43595341;  // "ASYC"
inline constexpr std::uint32_t shared_case_version = 3;
inline constexpr std::uint32_t command_limit = 4096;
inline constexpr std::uint32_t finding_limit = 16;
inline constexpr std::uint32_t sample_limit = 5;

/// Steps past the commands: what the case's process is doing when it is not running one.
enum Step : std::uint32_t {
  step_making = 0xffffff00,    ///< making the subject
  step_draining = 0xffffff01,  ///< freeing what the commands left
  step_ending = 0xffffff02,    ///< destroying the subject
  step_finished = 0xffffff03,
};

/// What the server found out about its subject, once.
struct ChildFacts {
  std::uint32_t ready = 0;           ///< 1: the facts hold
  std::uint32_t capabilities = 0;    ///< bits of Capabilities
  std::uint32_t proven = 0;          ///< process subjects: malloc comes from the library asked for
  std::uint32_t sized_free = 0;      ///< deallocate_sized is there
  std::uint32_t takes_upstream = 0;  ///< its first block came from the checking backing
  std::uint32_t instrumented = 0;    ///< the child is built with sanitizers
  std::uint32_t make_error = 0;      ///< the subject cannot be made here: an ErrorCode
  std::uint32_t driver = 0;          ///< 1: its memory is a CUDA driver's, told of below
  std::uint32_t limits_driver = 0;   ///< 1: `driver_capacity` can be set, because it is the model
  std::uint64_t granularity = 1;     ///< capacities are multiples of it, in bytes
  char provider[256] = {};           ///< path of the library that serves malloc
  char sized_by[64] = {};            ///< function that frees with a size, or why there is none
  char why_unmade[256] = {};         ///< make_error in words
};

struct CaseSettings {
  std::uint64_t address_space_limit = 0;  ///< bytes beyond what is mapped when the case starts
  std::uint64_t upstream_limit = 0;       ///< bytes live in the checking backing below
  std::uint64_t driver_capacity = 0;      ///< bytes that the driver's model may have live
  std::uint32_t cycles = 1;               ///< times the commands run, each drained
  std::uint32_t sized_free = 0;           ///< 1: frees pass their size, where that can be chosen
};

struct Figures {
  std::uint64_t own_live_blocks = 0;  ///< as the subject says, after the drain
  std::uint64_t own_live_bytes = 0;
  std::uint64_t upstream_live_blocks = 0;  ///< in the checking backing, after the subject's end
  std::uint64_t upstream_live_bytes = 0;
  std::uint64_t upstream_refusals = 0;
  std::uint64_t driver_bytes = 0;  ///< in use on the driver, by all its users
  std::uint32_t has_own = 0;       ///< the subject reports its usage
  std::uint32_t has_driver = 0;    ///< 1: driver_bytes holds; 2: and all of them are the subject's
  std::uint32_t has_upstream = 0;  ///< the figures of the checking backing hold
  std::uint32_t finding_count = 0;
  std::uint32_t sample_count = 0;
  std::uint64_t samples[sample_limit] = {};  ///< bytes held, at evenly spaced cycles from the 100th
};

struct SharedCase {
  std::uint32_t magic = shared_case_magic;
  std::uint32_t version = shared_case_version;
  std::uint64_t size = sizeof(SharedCase);
  ChildFacts facts;
  CaseSettings settings;
  std::uint32_t command_count = 0;
  std::int32_t case_pid = 0;               ///< written by the server
  std::uint32_t error_code = 0;            ///< the subject could not be made: an ErrorCode
  std::atomic<std::uint32_t> step{0};      ///< index of the command that runs, or a Step
  std::atomic<std::uint64_t> progress{0};  ///< grows with every step, over all cycles
  Figures figures;
  Finding findings[finding_limit];
  Command commands[command_limit];
  Outcome outcomes[command_limit];
};

static_assert(std::is_standard_layout_v<SharedCase>);
static_assert(std::is_trivially_copyable_v<Command> && sizeof(Command) == 24);
static_assert(std::is_trivially_copyable_v<Outcome> && sizeof(Outcome) == 48);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace assay::harness
