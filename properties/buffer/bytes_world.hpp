// BytesWorld: real values and the model side by side; one branch per operation.
#pragma once

#include "world_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "assay/backing/fault.hpp"
#include "assay/harness/subject.hpp"
#include "bytes_model.hpp"
#include "bytes_ops.hpp"

namespace assay::properties {

/// The one thing that is made to fail.
struct Injection {
  enum class What : std::uint8_t { nothing, node, allocation, resize, read } what{};
  std::uint64_t nth = 0;
};

class BytesWorld {
 public:
  struct Setup {
    Wipe wipe = Wipe::no;
    std::byte fresh_fill{0xcd};
    const harness::Subject* home = nullptr;  ///< null: the checking backing itself
    Ref<Backing> device{};                   ///< null: no values of a device
  };

  BytesWorld(const BytesOps& ops, const Setup& setup);
  ~BytesWorld();
  BytesWorld(const BytesWorld&) = delete;
  BytesWorld& operator=(const BytesWorld&) = delete;

  /// Runs the commands, drops everything and returns the first thing that was wrong, or "".
  std::string run(const BytesCommands& commands, Injection injection = {});
  /// Did the injection find no call to fail?
  [[nodiscard]] bool injection_pending() const { return pending_; }
  [[nodiscard]] CheckingBacking& leaf() { return *leaf_; }

 private:
  /// What a failing operation may not change.
  struct Before {
    const std::byte* data;
    std::size_t len;
    std::size_t capacity;
    bool shared;
    bool resident;
    std::size_t retained;
    AllocationProperty property;
    friend bool operator==(const Before&, const Before&) = default;
  };
  static Before state_of(const Bytes& value);
  [[nodiscard]] std::array<Before, slot_count> state_of_all() const;

  /// What an operation should do.
  struct Prediction {
    ErrorCode code = ErrorCode::none;
    std::uint64_t copies_min = 0;
    std::uint64_t copies_max = 0;
    SourceReads reads{};
    bool failure_may_settle = false;  ///< of two values the first may have been read
  };
  [[nodiscard]] static Prediction fails(ErrorCode code) { return {.code = code}; }
  [[nodiscard]] static Prediction copies(std::uint64_t bytes) {
    return {.copies_min = bytes, .copies_max = bytes};
  }
  /// The bytes of a value are brought: from its source, or copied.
  [[nodiscard]] Prediction brings(const ModelValue& value, std::size_t bytes);
  /// The value is read as a whole, by its unit.
  [[nodiscard]] Prediction reads(const ModelValue& value);

  static std::size_t limited(std::size_t value, std::size_t limit) {
    return limit == 0 ? 0 : value % (limit + 1);
  }
  void expect(bool good, const char* what) {
    if (!good && fault_.empty()) fault_ = what;
  }
  [[nodiscard]] std::uint64_t injections_left() const;
  [[nodiscard]] bool may_fail_with(ErrorCode code) const;

  /// Judges the outcome of an operation: as predicted, or an error that changed nothing.
  template <class Call, class Success>
  void judge(const Prediction& predicted, Call&& call, Success&& success) {
    const auto before = state_of_all();
    const std::uint64_t copied_before = payload_bytes_copied();
    const SourceReads read_before = source_reads();
    const std::uint64_t left_before = injections_left();
    auto result = call();
    const std::uint64_t copied = payload_bytes_copied() - copied_before;
    const SourceReads read{source_reads().calls - read_before.calls,
                           source_reads().bytes - read_before.bytes};
    const bool injected = left_before != 0 && injections_left() == 0;
    if (!result) {
      const ErrorCode code = result.error().code;
      expect(code == predicted.code || (injected && may_fail_with(code)), "an unexpected error");
      expect(predicted.failure_may_settle || state_of_all() == before,
             "a failure changed something");
      // What failed by chance can be had by asking again.
      if (injected && !predicted.failure_may_settle && injection_.nth % 2 == 1 && fault_.empty()) {
        judge(predicted, call, success);
      }
      return;
    }
    if (predicted.code != ErrorCode::none) return expect(false, "an error was expected");
    expect(copied >= predicted.copies_min && copied <= predicted.copies_max,
           "wrong number of bytes copied");
    expect(read == predicted.reads, "wrong reads of a source");
    success(result);
  }

  [[nodiscard]] Bytes empty() const { return Bytes::with_capacity(0, *home_).value(); }
  void put(std::size_t slot, Bytes value, ModelValue model);
  /// Nothing of zero length holds on to a group; a block, only for its room.
  static void normalise(const Bytes& value, ModelValue& model);

  void step(const BytesCommand& command);
  void make(const BytesCommand& command);
  void make_of_file(const BytesCommand& command);
  void make_device(const BytesCommand& command);
  /// A value on a new root, where it was made; or the error that was to be.
  void made(const BytesCommand& command, Result<Bytes> value, std::vector<std::byte> content,
            ModelRoot root, bool shared, std::uint64_t left_before);

  void clone(const BytesCommand& command);
  void view(const BytesCommand& command);
  void split(const BytesCommand& command);
  void split_model(const BytesCommand& command, std::size_t offset, Bytes right, bool forked);
  void join(const BytesCommand& command);
  [[nodiscard]] ErrorCode outcome_of_join(std::size_t a, std::size_t b);
  void join_model(std::size_t a, std::size_t b);
  void share(const BytesCommand& command);
  void truncate(const BytesCommand& command);

  void read(const BytesCommand& command);
  void copy_into(const BytesCommand& command);
  void read_chunks(const BytesCommand& command);
  void equals(const BytesCommand& command);
  void hash(const BytesCommand& command);
  void format(const BytesCommand& command);

  void write(const BytesCommand& command);
  void grow(const BytesCommand& command);
  void grown(const BytesCommand& command, std::uint64_t copied, bool forked, std::size_t added);
  void compact(const BytesCommand& command);

  void into_vec(const BytesCommand& command);
  template <class E>
  void into_owned(const BytesCommand& command);
  void detach(const BytesCommand& command);

  void check_values();
  void check_value(const Bytes& value, const ModelValue& model);
  void check_content(const Bytes& value, const ModelValue& model);
  void check_retained(const Bytes& value, const ModelValue& model);
  void check_unread();

  [[nodiscard]] std::size_t a_of(const BytesCommand& command) const {
    return command.a % slot_count;
  }
  [[nodiscard]] std::size_t b_of(const BytesCommand& command) const {
    return command.b % slot_count;
  }
  [[nodiscard]] Backing& backing() const { return home_->backing(); }

  const BytesOps& ops_;
  const Setup setup_;
  const Ref<CheckingBacking> leaf_;
  Ref<Fault> faulty_;
  Ref<Home> home_;
  WorldSources sources_;
  std::array<Bytes, slot_count> values_;
  BytesModel model_;
  Injection injection_;
  bool pending_ = false;
  std::string fault_;
};

}  // namespace assay::properties
