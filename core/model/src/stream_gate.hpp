// Gates: operations that start once a word of memory, which the host or the device writes, agrees.
#pragma once

#include <cstdint>

#include "stream_access.hpp"

namespace assay::cuda::model {

/// How cuStreamWaitValue32 compares the word with its value.
[[nodiscard]] bool agrees(std::uint32_t word, std::uint32_t value, unsigned comparison) noexcept;

/// The word's value now, as the host's stores leave it. A word that is gone has no value: false.
[[nodiscard]] bool read_word(const Operand& word, std::uint32_t& value) noexcept;

[[nodiscard]] Operation make_wait_value(const Operand& word, std::uint32_t value,
                                        unsigned comparison, Running running);
[[nodiscard]] Operation make_write_value(const Operand& word, std::uint32_t value, Running running);

}  // namespace assay::cuda::model
