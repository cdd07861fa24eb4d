#include "executor.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace assay::harness {
namespace {

enum class Holds : std::uint8_t { nothing_known, pattern, zeros };

struct Slot {
  assay_block block;
  assay_request request;
  std::uint32_t number;  // of the block, from 1; 0: the slot is empty
  Holds holds;
  std::uint64_t written;  // bytes from the start that must read as `holds` says
};

// Static, not on the heap: under a preload the heap is the thing under test.
Slot slots[slot_count];

/// Word `index` of the block of that number.
std::uint64_t pattern_word(std::uint32_t number, std::uint64_t index) noexcept {
  return number * 0x9e3779b97f4a7c15ULL + index * 0xd1b54a32d192ed03ULL + 1;
}

unsigned char* bytes_of(const assay_block& block) noexcept {
  return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(block.address));
}

std::uint64_t expected_word(const Slot& slot, std::uint64_t index) noexcept {
  return slot.holds == Holds::pattern ? pattern_word(slot.number, index) : 0;
}

/// Writes the pattern of bytes [from, to) of the block to `bytes`. **Pre** `from` is of a word.
void make_pattern(const Slot& slot, std::uint64_t from, std::uint64_t to,
                  unsigned char* bytes) noexcept {
  std::uint64_t i = from;
  for (; to - i >= 8; i += 8) {
    const std::uint64_t word = pattern_word(slot.number, i / 8);
    __builtin_memcpy(bytes + (i - from), &word, 8);
  }
  const std::uint64_t last = pattern_word(slot.number, i / 8);
  for (; i < to; ++i) bytes[i - from] = static_cast<unsigned char>(last >> (i % 8 * 8));
}

/// Compares bytes [from, to) of the block, which lie at `bytes`; on a mismatch says where.
bool compare(const Slot& slot, std::uint64_t from, std::uint64_t to, const unsigned char* bytes,
             Outcome& outcome) noexcept {
  std::uint64_t i = from;
  while (i < to) {
    const std::uint64_t expected = expected_word(slot, i / 8);
    if (i % 8 == 0 && to - i >= 8) {
      std::uint64_t word = 0;
      __builtin_memcpy(&word, bytes + (i - from), 8);
      if (word == expected) {
        i += 8;
        continue;
      }
    }
    const auto wanted = static_cast<unsigned char>(expected >> (i % 8 * 8));
    const unsigned char found = bytes[i - from];
    if (found != wanted) {
      outcome.status = Status::mismatch;
      outcome.bad_offset = i;
      outcome.expected = wanted;
      outcome.found = found;
      return false;
    }
    ++i;
  }
  return true;
}

/// Bytes of blocks that the host cannot touch pass through here.
constexpr std::uint64_t window_size = std::uint64_t{64} << 10;
unsigned char window[window_size];

class Execution {
 public:
  Execution(const assay_ops& ops, SharedCase& shared) noexcept : ops_(ops), shared_(shared) {}

  void run_commands() noexcept {
    for (std::uint32_t i = 0; i < shared_.command_count; ++i) {
      enter(i);
      Outcome outcome;
      run(shared_.commands[i], outcome);
      shared_.outcomes[i] = outcome;
    }
  }

  void drain() noexcept {
    enter(step_draining);
    for (Slot& slot : slots) {
      if (slot.number != 0) give_back(slot);
    }
    next_block_ = 1;  // the same numbers, so the same patterns, in every cycle
  }

  /// Stored before the step, so that a crash or a hang names it.
  void enter(std::uint32_t step) noexcept {
    shared_.step.store(step, std::memory_order_release);
    shared_.progress.fetch_add(1, std::memory_order_release);
  }

 private:
  void run(const Command& command, Outcome& outcome) noexcept {
    Slot& slot = slots[command.slot % slot_count];
    const bool wants_empty = command.operation == Operation::allocate;
    if (wants_empty != (slot.number == 0)) {
      outcome.status = Status::skipped;
      return;
    }
    outcome.status = Status::done;
    outcome.block = slot.number;
    switch (command.operation) {
      case Operation::allocate: allocate(slot, command, outcome); break;
      case Operation::free: give_back(slot); break;
      case Operation::resize: resize(slot, command, outcome); break;
      case Operation::fill:
        slot.holds = Holds::pattern;
        slot.written = slot.block.capacity;
        fill(slot, outcome);
        break;
      case Operation::check:
        if (slot.holds == Holds::nothing_known) {
          outcome.status = Status::skipped;
        } else {
          holds_what_it_must(slot, 0, slot.written, outcome);
        }
        break;
    }
  }

  void allocate(Slot& slot, const Command& command, Outcome& outcome) noexcept {
    const assay_request request{command.size, 0, command.alignment, command.zero, 0};
    assay_block block{};
    if (const auto error = ops_.allocate(ops_.self, &request, &block); error != 0) {
      outcome.status = Status::refused;
      outcome.error_code = static_cast<std::uint8_t>(error);
      return;
    }
    slot = {block, request, next_block_++, Holds::nothing_known, 0};
    outcome.block = slot.number;
    outcome.address = block.address;
    outcome.capacity = block.capacity;
    if (command.zero != 0) {
      slot.holds = Holds::zeros;
      slot.written = command.size;
      holds_what_it_must(slot, 0, slot.written, outcome);
    }
  }

  void resize(Slot& slot, const Command& command, Outcome& outcome) noexcept {
    assay_request to = slot.request;
    to.size = command.size;
    to.init = command.zero;
    assay_block block{};
    std::uint32_t error = child_error_not_supported;
    if (ops_.resize != nullptr) {
      error = ops_.resize(ops_.self, &slot.block, &slot.request, &to, 1, &block);
    }
    if (error != 0) {
      outcome.status = Status::refused;
      outcome.error_code = static_cast<std::uint8_t>(error);
      return;
    }
    const std::uint64_t before = slot.request.size;
    slot.block = block;
    slot.request = to;
    outcome.address = block.address;
    outcome.capacity = block.capacity;
    // Only bytes up to the smaller size are kept; what lay beyond is nobody's promise.
    const std::uint64_t kept = before < to.size ? before : to.size;
    if (slot.written > kept) slot.written = kept;
    if (!holds_what_it_must(slot, 0, slot.written, outcome)) return;
    if (command.zero != 0 && to.size > before) check_new_zeros(slot, before, outcome);
  }

  void fill(const Slot& slot, Outcome& outcome) noexcept {
    if (ops_.write == nullptr) {
      make_pattern(slot, 0, slot.written, bytes_of(slot.block));
      return;
    }
    for (std::uint64_t at = 0; at < slot.written; at += window_size) {
      const std::uint64_t end = at + window_size < slot.written ? at + window_size : slot.written;
      make_pattern(slot, at, end, window);
      const auto error = ops_.write(ops_.self, &slot.block, at, window, end - at);
      if (error != 0) return unreachable(error, outcome);
    }
  }

  /// Compares bytes [from, to) of the block; false with the outcome set if they are others.
  bool holds_what_it_must(const Slot& slot, std::uint64_t from, std::uint64_t to,
                          Outcome& outcome) noexcept {
    if (ops_.read == nullptr) {
      return from >= to || compare(slot, from, to, bytes_of(slot.block) + from, outcome);
    }
    for (std::uint64_t at = from; at < to;) {
      const std::uint64_t end = at + window_size < to ? at + window_size : to;
      const auto error = ops_.read(ops_.self, &slot.block, at, window, end - at);
      if (error != 0) {
        unreachable(error, outcome);
        return false;
      }
      if (!compare(slot, at, end, window, outcome)) return false;
      at = end;
    }
    return true;
  }

  static void unreachable(std::uint32_t error, Outcome& outcome) noexcept {
    outcome.status = Status::unreachable;
    outcome.error_code = static_cast<std::uint8_t>(error);
  }

  void check_new_zeros(Slot& slot, std::uint64_t before, Outcome& outcome) noexcept {
    Slot zeros = slot;
    zeros.holds = Holds::zeros;
    if (!holds_what_it_must(zeros, before, slot.request.size, outcome)) return;
    if (slot.holds == Holds::zeros && slot.written == before) slot.written = slot.request.size;
  }

  void give_back(Slot& slot) noexcept {
    const bool sized = shared_.settings.sized_free != 0 && ops_.deallocate_sized != nullptr;
    (sized ? ops_.deallocate_sized : ops_.deallocate)(ops_.self, &slot.block, &slot.request);
    slot.number = 0;
  }

  const assay_ops& ops_;
  SharedCase& shared_;
  std::uint32_t next_block_ = 1;
};

/// A number of /proc/self/statm, in bytes: field 0 is the address space, 1 the resident part.
std::uint64_t statm_bytes(int field) noexcept {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  std::uint64_t pages = 0;
  int at = 0;
  for (ssize_t i = 0; i < length && at <= field; ++i) {
    if (text[i] == ' ') {
      ++at;
    } else if (at == field) {
      pages = pages * 10 + static_cast<std::uint64_t>(text[i] - '0');
    }
  }
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Small and large blocks, once, so that the limit is met by the commands and not by the
/// allocator's own start.
void warm_up(const assay_ops& ops) noexcept {
  for (const std::uint64_t size :
       {std::uint64_t{64}, std::uint64_t{40} << 10, std::uint64_t{1} << 20}) {
    const assay_request request{size, 0, 16, 0, 0};
    assay_block block{};
    if (ops.allocate(ops.self, &request, &block) == 0) {
      ops.deallocate(ops.self, &block, &request);
    }
  }
}

void limit_address_space(std::uint64_t bytes) noexcept {
  const std::uint64_t limit = statm_bytes(0) + bytes;
  const rlimit as{limit, limit};
  ::setrlimit(RLIMIT_AS, &as);
}

/// Bytes held: what the checking backing counts where there is one, what the driver says of its
/// memory, else what is resident.
std::uint64_t held_bytes(const SharedCase& shared) noexcept {
  const Figures& figures = shared.figures;
  if (figures.has_upstream != 0) return figures.upstream_live_bytes;
  return figures.has_driver != 0 ? figures.driver_bytes : statm_bytes(1);
}

void take_sample(const Provider& provider, SharedCase& shared, std::uint32_t cycle) noexcept {
  constexpr std::uint32_t first = 100;
  const std::uint32_t cycles = shared.settings.cycles;
  if (cycles <= first || cycle < first || shared.figures.sample_count == sample_limit) return;
  const std::uint32_t apart = (cycles - first) / (sample_limit - 1);
  if ((cycle - first) % apart != 0) return;
  if (provider.close != nullptr) provider.close(provider.self, shared);
  shared.figures.samples[shared.figures.sample_count++] = held_bytes(shared);
}

}  // namespace

int execute_case(const Provider& provider, SharedCase& shared) noexcept {
  assay_ops ops{};
  ops.abi = assay_ops_abi;
  ops.size = sizeof ops;
  Execution execution(ops, shared);
  execution.enter(step_making);
  if (const auto error = provider.open(provider.self, shared, ops); error != 0) {
    shared.error_code = error;
    return 0;
  }
  if (shared.settings.address_space_limit != 0) {
    warm_up(ops);
    limit_address_space(shared.settings.address_space_limit);
  }
  for (std::uint32_t cycle = 1; cycle <= shared.settings.cycles; ++cycle) {
    execution.run_commands();
    execution.drain();
    take_sample(provider, shared, cycle);
  }
  execution.enter(step_ending);
  if (ops.usage != nullptr) {
    assay_usage usage{};
    ops.usage(ops.self, &usage);
    shared.figures.has_own = 1;
    shared.figures.own_live_blocks = usage.live_blocks;
    shared.figures.own_live_bytes = usage.live_bytes;
  }
  if (ops.destroy != nullptr) ops.destroy(ops.self);
  if (provider.close != nullptr) provider.close(provider.self, shared);
  execution.enter(step_finished);
  return 0;
}

}  // namespace assay::harness
