#include "virtual_refusals.hpp"

#include <string>

namespace assay::cuda::model {

namespace {

std::string text_of(Range range) {
  return "of " + describe_range(range.address, range.size);
}

}  // namespace

Status refuse_reservation(Rule rule, Range range, const Reservation* there) {
  const std::string text = there == nullptr
                               ? ": nothing was reserved there"
                               : ": " + describe_range(there->range.address, there->range.size) +
                                     " was reserved by " + describe(there->reserved);
  return refuse(rule, Status::invalid_value, text_of(range) + text);
}

Status refuse_mapped(Rule rule, Range range, const Allocation& mapping) {
  return refuse(rule, Status::invalid_value,
                text_of(range) + ", where " + describe(mapping.allocated) + " mapped " +
                    describe_range(mapping.address, mapping.size));
}

Status refuse_size(Rule rule, Range range, const Physical& physical) {
  return refuse(rule, Status::invalid_value,
                text_of(range) + " of memory of " + std::to_string(physical.size) +
                    " bytes made by " + describe(physical.created));
}

Status refuse_partial(Rule rule, Range range) {
  return refuse(rule, Status::invalid_value,
                text_of(range) +
                    ", which is not whole mappings: " + history_with_reservations(range.address));
}

Status refuse_access(Rule rule, Range range, const Allocation& mapping, Device device) {
  const Site set = mapping.mapped->access_set();
  return refuse(
      rule, Status::invalid_value,
      "uses " + describe_range(range.address, range.size) + " mapped by " +
          describe(mapping.allocated) + ", to which device " + std::to_string(device) +
          (set.call == 0 ? " was given no access" : " was given other access by " + describe(set)));
}

}  // namespace assay::cuda::model
