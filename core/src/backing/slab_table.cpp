#include <algorithm>

#include "slab_chunk.hpp"

namespace assay::detail {

SlabTable::~SlabTable() {
  std::free(chunks_);
}

bool SlabTable::admit() noexcept {
  if (admitted_ == capacity_) {
    const std::size_t larger = capacity_ == 0 ? 64 : capacity_ * 2;
    void* const memory = std::realloc(chunks_, larger * sizeof(SlabChunk*));
    if (memory == nullptr) return false;
    chunks_ = static_cast<SlabChunk**>(memory);
    capacity_ = larger;
  }
  ++admitted_;
  return true;
}

std::size_t SlabTable::first_above(std::uint64_t address) const noexcept {
  SlabChunk** const end = chunks_ + size_;
  SlabChunk** const found = std::upper_bound(
      chunks_, end, address,
      [](std::uint64_t key, const SlabChunk* chunk) { return key < chunk->block.address; });
  return static_cast<std::size_t>(found - chunks_);
}

void SlabTable::insert(SlabChunk* chunk) noexcept {
  ASSAY_CONTRACT(size_ < capacity_, "a chunk that was not admitted");
  const std::size_t index = first_above(chunk->block.address);
  std::copy_backward(chunks_ + index, chunks_ + size_, chunks_ + size_ + 1);
  chunks_[index] = chunk;
  ++size_;
}

void SlabTable::erase(SlabChunk* chunk) noexcept {
  std::size_t index = first_above(chunk->block.address);
  // A faulty upstream may have given the same address twice: find this very record.
  while (index > 0 && chunks_[index - 1] != chunk) --index;
  ASSAY_CONTRACT(index > 0, "a chunk that is not in the table");
  std::copy(chunks_ + index, chunks_ + size_, chunks_ + index - 1);
  --size_;
}

SlabChunk* SlabTable::find(std::uint64_t address) const noexcept {
  const std::size_t above = first_above(address);
  if (above == 0) return nullptr;
  SlabChunk* const chunk = chunks_[above - 1];
  return address < chunk->end() ? chunk : nullptr;
}

}  // namespace assay::detail
