// One cell: what is seen, compared with what the rules say.
#include <fmt/format.h>

#include <algorithm>

#include "operate.hpp"

namespace assay::matrix {
namespace {

/// Collects what is wrong with one cell.
class Findings {
 public:
  template <class A, class B>
  void equal(const char* what, const A& seen, const B& expected) {
    if (seen == expected) return;
    add(fmt::format("{} is {}, not {}", what, seen, expected));
  }
  void good(const char* what, bool is) {
    if (!is) add(what);
  }
  void add(const std::string& what) { text_ += (text_.empty() ? "" : "; ") + what; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool pointer_is_aligned(const Bytes& bytes) {
  if (!bytes.has_block() || !bytes.is_resident()) return true;
  return is_aligned(reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.align());
}

/// What can be seen of a value without an effect.
struct Facts {
  std::size_t len, capacity, align, retained;
  bool exclusive, shared, resident;
  AllocationProperty property;
  const std::byte* data;
  friend bool operator==(const Facts&, const Facts&) = default;
};

Facts facts_of(const Bytes& bytes) {
  return {.len = bytes.len(),
          .capacity = bytes.capacity(),
          .align = bytes.align(),
          .retained = bytes.retained_bytes(),
          .exclusive = bytes.is_exclusive(),
          .shared = bytes.is_shared(),
          .resident = bytes.is_resident(),
          .property = bytes.property(),
          .data = bytes.is_resident() ? bytes.data() : nullptr};
}

void check_cost(Findings& findings, const Cell& cell, const Seen& seen, const Expected& expected) {
  findings.equal("the error", name_of(seen.error.code), std::string(name_of(expected.error)));
  findings.equal("reads of the source", seen.reads.calls, expected.reads.calls);
  findings.equal("bytes read", seen.reads.bytes, expected.reads.bytes);
  if (expected.error != ErrorCode::none) {
    findings.good("more was copied than success costs", seen.copied <= expected.copied);
    return;
  }
  findings.equal("payload copied", seen.copied, expected.copied);
  if (cell.state != State::moved_from) {  // which has another home
    findings.equal("memory asked for", seen.allocations != 0, expected.block);
  }
  if (cell.fault == Fault::out_of_nodes || cell.fault == Fault::out_of_second_node) {
    const unsigned nth = cell.fault == Fault::out_of_nodes ? 1 : 2;
    findings.equal("a node was missed", seen.missed_a_node, expected.nodes >= nth);
  }
}

void check_facts(Findings& findings, const Bytes& value, const Value& after) {
  findings.equal("len", value.len(), after.len);
  findings.equal("align", value.align(), after.align);
  findings.equal("property", std::string(name_of(value.property())),
                 std::string(name_of(after.property)));
  findings.equal("resident", value.is_resident(), after.resident);
  if (after.retained != whatever) {
    findings.equal("retained", value.retained_bytes(), after.retained);
  }
  findings.good("capacity is below len", value.capacity() >= value.len());
  if (value.is_empty()) return;
  findings.equal("exclusive", value.is_exclusive(), after.exclusive);
  findings.equal("shared", value.is_shared(), !after.exclusive);
  if (value.is_shared()) findings.equal("capacity", value.capacity(), value.len());
}

/// Reads a value as its owner would, now that no fault is set, and says what is wrong.
void check_content(Findings& findings, const char* whose, const Bytes& bytes,
                   const std::vector<std::byte>& content, bool file_is_gone) {
  const bool at_the_file = bytes.property() == AllocationProperty::file;
  const auto read = bytes.read();
  if (file_is_gone && at_the_file && !content.empty()) {
    findings.equal(whose, name_of(read ? ErrorCode::none : read.error().code),
                   std::string(name_of(ErrorCode::source_changed)));
    return;
  }
  if (!read) {
    findings.add(fmt::format("{}: {}", whose, describe(read.error())));
    return;
  }
  findings.good(whose, std::ranges::equal(read.value(), content));
  findings.good("a pointer is not as aligned as it says", pointer_is_aligned(bytes));
}

Seen observe(World& world, Prepared& prepared, const Cell& cell) {
  const std::uint64_t copied = payload_bytes_copied();
  const SourceReads reads = source_reads();
  const std::uint64_t allocations = world.gate().allocations;
  const auto answer = operate(world, prepared, cell);
  Seen seen{.copied = payload_bytes_copied() - copied,
            .reads = {source_reads().calls - reads.calls, source_reads().bytes - reads.bytes},
            .allocations = world.gate().allocations - allocations,
            .missed_a_node = !node_pool::failure_pending()};
  if (!answer) seen.error = answer.error();
  return seen;
}

/// A value of a file that was replaced before it was opened is of the new file.
void expect_the_new_file(World& world) {
  const auto whole = test::counting(parent_len, 77);
  const std::size_t start = world.subject() == Subject::file_view ? view_offset : file_offset;
  std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(start), value_len, world.content.begin());
  for (World::Owner& owner : world.others) owner.content = whole;
}

void check_owners(Findings& findings, World& world, const Expected& expected, bool file_is_gone) {
  check_content(findings, "content", world.value, world.content, file_is_gone);
  for (const World::Owner& owner : world.others) {
    check_content(findings, "content of another owner", owner.bytes, owner.content, file_is_gone);
  }
  // Who may write in place: nobody who has company, and everybody else.
  const bool unread = !world.value.is_resident();
  const Value& after = expected.after;
  if (unread || after.watched) return;
  const bool in_place =
      world.content.empty() || after.exclusive || (after.alone && !after.immutable);
  findings.equal("write in place", world.value.write(Writer::no_copy()).has_value(), in_place);
}

}  // namespace

std::string run(const Machine& machine, const Cell& cell) {
  World world(machine, cell.subject);
  Findings findings;
  const bool makes = cell.operation == Operation::make;
  Value before = value_in(cell.state, world);
  Prepared prepared;
  if (!makes) {
    const auto made = world.make();
    if (!made) return "cannot be made: " + describe(made.error());
    world.bring_to(cell.state);
    prepared = prepare(world, cell.operation, before);
  }
  const Expected expected = expect(cell, before);
  const Facts facts = facts_of(world.value);
  world.arm(cell.fault);
  const Seen seen = observe(world, prepared, cell);
  world.disarm();

  if (seen.error.code == ErrorCode::parse) findings.add(std::string("wrong ") + seen.error.feature);
  check_cost(findings, cell, seen, expected);
  const bool failed = expected.error != ErrorCode::none;
  if (failed) findings.good("the failure left a trace", facts_of(world.value) == facts);
  if (makes && cell.fault == Fault::replaced) expect_the_new_file(world);
  if (!makes || !failed) {
    check_facts(findings, world.value, expected.after);
    check_owners(findings, world, expected, cell.fault == Fault::truncated);
  }
  prepared = {};
  const std::string left = world.close();
  if (!left.empty()) findings.add(left);
  return findings.text();
}

}  // namespace assay::matrix
