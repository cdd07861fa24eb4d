#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

#include "assay/harness/child_server.hpp"

int main(int argument_count, char** arguments) {
  using namespace assay::harness;
  if (argument_count == 5 && std::string_view(arguments[1]) == "--serve") {
    const Subject* const subject = find_subject(arguments[2]);
    return subject == nullptr
               ? 2
               : serve_subject(*subject, std::atoi(arguments[3]), std::atoi(arguments[4]));
  }
  testing::InitGoogleTest(&argument_count, arguments);
  return RUN_ALL_TESTS();
}
