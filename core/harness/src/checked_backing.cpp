#include "assay/harness/checked_backing.hpp"

#include <cerrno>

#include <sys/mman.h>

namespace assay::harness {
namespace {

constexpr std::size_t table_size = std::size_t{1} << 17;  // power of two; half of it is used

std::size_t first_place(std::uint64_t address) noexcept {
  return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15ULL) >> 47);
}

}  // namespace

Result<Ref<CheckedBacking>> CheckedBacking::make(Ref<Backing> upstream, std::uint64_t limit_bytes) {
  void* const table = ::mmap(nullptr, table_size * sizeof(Record), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) {
    Error error = Error::make(ErrorCode::out_of_memory, "make", "checked");
    error.native = errno;
    return error;
  }
  // Asked first: an argument that moves `upstream` may be evaluated before one that reads it.
  const SourceInfo facts = renamed("checked", *upstream);
  return Ref<CheckedBacking>::adopt(
      new CheckedBacking(facts, std::move(upstream), limit_bytes, static_cast<Record*>(table)));
}

CheckedBacking::CheckedBacking(const SourceInfo& facts, Ref<Backing> upstream,
                               std::uint64_t limit_bytes, Record* records) noexcept
    : Adaptor(facts, std::move(upstream)), records_(records), limit_bytes_(limit_bytes) {}

CheckedBacking::~CheckedBacking() {
  ::munmap(records_, table_size * sizeof(Record));
}

const Finding& CheckedBacking::finding(std::size_t index) const noexcept {
  ASSAY_CONTRACT(index < finding_limit && index < counts_.findings, "no such finding");
  return findings_[index];
}

Block CheckedBacking::do_allocate(const Request& request, Error& error) noexcept {
  const bool room = counts_.live_blocks < table_size / 2;
  if (!room || !within_limit(footprint(request))) {
    ++counts_.refusals;
    error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
    error.in_use = counts_.live_bytes;
    error.limit = limit_bytes_;
    return {};
  }
  const Block block = allocate_from(upstream(), request, error);
  if (!block) {
    ++counts_.refusals;
    return {};
  }
  insert(block, request);
  return block;
}

Freed CheckedBacking::do_deallocate(Block block, const Release& release) noexcept {
  Record* const record = find(block.address);
  if (record == nullptr) {
    note(FindingKind::unknown_block, 0, release.request.size);
    return Freed::refused;
  }
  compare(*record, block, release.request);
  // The upstream gets back what it gave, whatever the subject made of it.
  const Block given{record->address, record->capacity};
  const Release right{{.size = record->size,
                       .reserve = record->reserve,
                       .alignment = record->alignment,
                       .init = release.request.init,
                       .stream = release.request.stream},
                      release.known_zero};
  counts_.live_blocks -= 1;
  counts_.live_bytes -= record->capacity;
  erase(*record);
  return deallocate_to(upstream(), given, right);
}

Block CheckedBacking::do_resize(Block block, const Request& from, const Request& to,
                                MayMove may_move, Error& error) noexcept {
  Record* const record = find(block.address);
  if (record == nullptr) {
    note(FindingKind::unknown_block, 0, from.size);
    error = Error::make(ErrorCode::invalid_argument, "resize", info().id, to.size);
    return {};
  }
  compare(*record, block, from);
  const std::uint64_t wanted = footprint(to);
  if (wanted > record->capacity && !within_limit(wanted - record->capacity)) {
    ++counts_.refusals;
    error = Error::make(ErrorCode::out_of_memory, "resize", info().id, to.size);
    return {};
  }
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  if (!resized) return {};
  counts_.live_blocks -= 1;
  counts_.live_bytes -= record->capacity;
  erase(*record);
  insert(resized, to);
  counts_.allocations -= 1;
  return resized;
}

CheckedBacking::Record* CheckedBacking::find(std::uint64_t address) noexcept {
  for (std::size_t i = first_place(address);; ++i) {
    Record& record = records_[i % table_size];
    if (record.address == address) return &record;
    if (record.address == 0) return nullptr;
  }
}

void CheckedBacking::insert(Block block, const Request& request) noexcept {
  std::size_t i = first_place(block.address);
  while (records_[i % table_size].address != 0) ++i;
  records_[i % table_size] = {block.address, block.capacity, request.size, request.alignment,
                              request.reserve};
  counts_.allocations += 1;
  counts_.live_blocks += 1;
  counts_.live_bytes += block.capacity;
}

void CheckedBacking::erase(Record& record) noexcept {
  auto hole = static_cast<std::size_t>(&record - records_);
  records_[hole].address = 0;
  // Moves up what probed past the hole, so that searches may stop at the first empty place.
  for (std::size_t i = (hole + 1) % table_size; records_[i].address != 0;
       i = (i + 1) % table_size) {
    const std::size_t home = first_place(records_[i].address);
    const bool stays = hole <= i ? hole < home && home <= i : hole < home || home <= i;
    if (stays) continue;
    records_[hole] = records_[i];
    records_[i].address = 0;
    hole = i;
  }
}

bool CheckedBacking::within_limit(std::uint64_t more_bytes) const noexcept {
  return limit_bytes_ == 0 ||
         (counts_.live_bytes <= limit_bytes_ && more_bytes <= limit_bytes_ - counts_.live_bytes);
}

void CheckedBacking::compare(const Record& record, Block block, const Request& request) noexcept {
  if (request.size != record.size) note(FindingKind::wrong_size, record.size, request.size);
  if (request.alignment != record.alignment) {
    note(FindingKind::wrong_alignment, record.alignment, request.alignment);
  }
  if (block.capacity != record.capacity) {
    note(FindingKind::wrong_capacity, record.capacity, block.capacity);
  }
}

void CheckedBacking::note(FindingKind kind, std::uint64_t expected, std::uint64_t found) noexcept {
  if (counts_.findings < finding_limit) {
    const std::uint32_t step = step_ == nullptr ? 0 : step_->load(std::memory_order_relaxed);
    findings_[counts_.findings] = {kind, step, expected, found};
  }
  ++counts_.findings;
}

}  // namespace assay::harness
