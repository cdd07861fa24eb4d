// Arena: address space for allocations, mapped twice from one memory file.
//
//   segment   | block | block | freed | block |   ... never given out |
//   view        none    rw      none    none       none                    what the program holds
//   alias       rw      rw      rw      rw         rw                      what the model uses
//
// An address is given out once in the life of its segment. A segment that is used up and whose
// blocks are all freed goes into quarantine: its view stays PROT_NONE, the rest is given back. The
// oldest segments leave it when it exceeds its bounds; only then can an address come again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace assay::cuda::model {

/// Device blocks are never open to the host. A packed host block may share a page with others.
enum class View : std::uint8_t { device, host, host_packed };

struct Block {
  std::uint64_t address = 0;
  std::byte* alias = nullptr;
  std::size_t capacity = 0;  ///< `size` rounded up: to 512 below a page, else to pages
};

inline constexpr std::size_t block_alignment = 512;  ///< of every block: what drivers show

/// **Errors** empty if the system has no address space or no mapping left, even without quarantine.
/// **Cost** no system call for device blocks but for a new segment; one mprotect for host blocks.
[[nodiscard]] std::optional<Block> take_block(View access, std::size_t size);

/// The program has freed the block: its view closes (a page that is shared, with the last block on
/// it). The alias works until give_back().
void close_block(const Block& block) noexcept;

/// The block's memory goes back to the system. Pre: closed.
void give_back(const Block& block) noexcept;

/// Opens or closes the view of a live block.
void protect_block(const Block& block, bool open) noexcept;

/// An address range that faults, for device addresses of registered memory. 0 on failure.
[[nodiscard]] std::uint64_t reserve_faulting(std::size_t size) noexcept;
void release_faulting(std::uint64_t address, std::size_t size) noexcept;

[[nodiscard]] std::size_t page_size() noexcept;
[[nodiscard]] std::uint64_t quarantined_bytes() noexcept;
/// The most that a quarantine takes: where the process's address space is limited, it may not eat
/// up what the program needs.
[[nodiscard]] std::uint64_t quarantine_limit() noexcept;

[[nodiscard]] constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) noexcept {
  return value / unit * unit;
}
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

}  // namespace assay::cuda::model
