#include "pool_reserve.hpp"

#include <algorithm>
#include <utility>

#include "arena.hpp"
#include "mutants.hpp"

namespace assay::cuda::model {

namespace {

bool may_take(const StreamPoint& freed, const ReusePolicy& policy, const StreamOrder& order) {
  if (freed.queue == nullptr || freed.queue == order.here().queue) return true;
  if (policy.event_order && order.follows(freed)) return true;
  return policy.opportunistic && StreamOrder::complete(freed);
}

}  // namespace

bool PoolReserve::grow(std::uint64_t missing, const Limits& limits) {
  for (const std::uint64_t step : {step_bytes, least_step_bytes, std::uint64_t{1}}) {
    const std::uint64_t bytes = round_up(missing, step);
    if (reserved_ > limits.bytes_max || bytes > limits.bytes_max - reserved_) continue;
    if (!limits.charge(bytes)) continue;
    chunks_.push_back(bytes);
    fresh_ += bytes;
    reserved_ += bytes;
    high_ = std::max(high_, reserved_);
    return true;
  }
  return false;
}

bool PoolReserve::take(std::uint64_t bytes, const ReusePolicy& policy, const StreamOrder& order,
                       const Limits& limits, std::vector<StreamMark>& after) {
  std::uint64_t ready = fresh_;
  std::uint64_t later = 0;  // what may be had by waiting for another stream
  for (const Piece& piece : pieces_) {
    const bool at_once = may_take(piece.freed, policy, order);
    (at_once ? ready : later) += piece.bytes;
  }
  if (!policy.internal_order) later = 0;
  const bool enough = ready + later >= bytes;
  if (!enough && !grow(bytes - ready, limits) && !grow(bytes - ready - later, limits)) return false;

  const auto draw = [&bytes](std::uint64_t& from) {
    const std::uint64_t drawn = std::min(bytes, from);
    from -= drawn;
    bytes -= drawn;
  };
  for (Piece& piece : pieces_) {
    if (may_take(piece.freed, policy, order)) draw(piece.bytes);
  }
  draw(fresh_);
  for (Piece& piece : pieces_) {
    if (bytes == 0) break;
    if (piece.bytes == 0) continue;
    if (!ASSAY_MODEL_BROKEN("internal_dependency_waits")) {
      after.push_back({piece.freed.queue, piece.freed.ticket});
    }
    draw(piece.bytes);
  }
  std::erase_if(pieces_, [](const Piece& piece) { return piece.bytes == 0; });
  return true;
}

void PoolReserve::leave(std::uint64_t bytes, StreamPoint freed) {
  if (freed.queue == nullptr) {
    fresh_ += bytes;
  } else {
    pieces_.push_back({bytes, std::move(freed)});
  }
}

void PoolReserve::settle(const StreamOrder& host) {
  std::erase_if(pieces_, [&](const Piece& piece) {
    if (!StreamOrder::complete(piece.freed) || !host.follows(piece.freed)) return false;
    fresh_ += piece.bytes;
    return true;
  });
}

std::uint64_t PoolReserve::clear() {
  chunks_.clear();
  pieces_.clear();
  fresh_ = 0;
  return std::exchange(reserved_, 0);
}

std::uint64_t PoolReserve::shrink_to(std::uint64_t keep) {
  std::uint64_t released = 0;
  for (std::size_t i = chunks_.size(); i-- > 0;) {
    const std::uint64_t chunk = chunks_[i];
    if (chunk > fresh_ || reserved_ < keep || reserved_ - keep < chunk) continue;
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(i));
    fresh_ -= chunk;
    reserved_ -= chunk;
    released += chunk;
  }
  return released;
}

}  // namespace assay::cuda::model
