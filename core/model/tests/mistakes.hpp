// The forty mistakes of docs/cuda-model.md, each committed once through the exported functions. A
// test asserts what hardware answers, and the text that the model adds.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>

#include "stream_driver.hpp"

namespace assay::model_tests {

/// Rows whose mistake was diagnosed in this process, or in a child of its test.
inline std::set<int>& diagnosed_rows() {
  static std::set<int> rows;
  return rows;
}

/// Every test is named after its row: `7_...`.
class Mistakes : public testing::Test {
 protected:
  ~Mistakes() override {
    if (!driver_) return;
    driver_->control.open_gates();
    EXPECT_EQ(driver_->cu.cuCtxDestroy_v2(driver_->context), Status::success);
  }

  /// The driver with a context of the test's own; made at the first call, so that a test which only
  /// has children initialises nothing.
  Driver& start() {
    if (!driver_) driver_.emplace();
    return *driver_;
  }

  static void note_diagnosed() {
    diagnosed_rows().insert(
        std::atoi(testing::UnitTest::GetInstance()->current_test_info()->name()));
  }

  /// One diagnosis begins with the rule and has all the parts: the calls at fault, by name.
  static void expect_diagnosed(const std::string& rule, std::initializer_list<const char*> parts) {
    const assay_model_control& control = *model().control;
    std::string all;
    for (std::uint64_t i = 0; i < control.diagnosis_count(); ++i) {
      const std::string text = control.diagnosis(i);
      bool fits = text.starts_with(rule + ": ");
      for (const char* part : parts) fits = fits && text.find(part) != std::string::npos;
      if (fits) return note_diagnosed();
      all += text + "\n";
    }
    ADD_FAILURE() << "no diagnosis of " << rule << " that names them in:\n" << all;
  }

  /// `body` ends its process by an access fault, after a line that fits.
  static void expect_fault(const std::function<void()>& body, const std::string& line) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          std::signal(SIGSEGV, SIG_DFL);  // also under a sanitizer, which would report and exit
          body();
        },
        testing::KilledBySignal(SIGSEGV), line);
    if (!HasFailure()) note_diagnosed();
  }

  /// The expectations of `body` hold in a process of its own.
  static void expect_child(const std::function<void()>& body) {
    ASSAY_EXPECT_CHILD(
        [&] {
          body();
          leave();
        },
        0);
    if (!HasFailure()) note_diagnosed();
  }

 private:
  std::optional<Driver> driver_;
};

/// A call and what it answers.
inline void expect_status(Status expected, Status actual) {
  EXPECT_EQ(static_cast<unsigned>(actual), static_cast<unsigned>(expected));
}

/// What the control table reports now.
inline std::string report_text() {
  std::string path = testing::TempDir() + "assay-report-XXXXXX";
  const int fd = mkstemp(path.data());
  EXPECT_GE(fd, 0);
  model().control->report(fd);
  close(fd);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return text;
}

}  // namespace assay::model_tests
