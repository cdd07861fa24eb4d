// Goal: a block keeps every byte until it is freed, through everything done to other blocks; a
// resize keeps what fits; bytes asked for as zero read zero.
// Method: each block is filled to its whole capacity with a pattern of its own and checked whole
// before it is freed, after each resize, and at the end.
#include "../engine/generators.hpp"
#include "../engine/slot_model.hpp"

namespace assay::properties::property_list {

const Property& contents_survive() {
  static constexpr Property property{
      .id = "contents_survive",
      .goal = "a block keeps every byte until it is freed, and what fits through a resize",
      .commands =
          [] {
            auto lists = command_lists({.length = 130,
                                        .allocate = 0,
                                        .allocate_and_fill = 6,
                                        .free = 1,
                                        .check_and_free = 3,
                                        .check = 1,
                                        .fill = 1,
                                        .resize = 2,
                                        .zero = true});
            return rc::gen::map(std::move(lists), [](Commands commands) {
              check_all(commands);
              return commands;
            });
          },
      .judge = first_mismatch};
  return property;
}

}  // namespace assay::properties::property_list
