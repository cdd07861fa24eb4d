#include "world.hpp"

#include <cstring>
#include <filesystem>

#include "assay/backing/slab_pool.hpp"

namespace assay::matrix {
namespace {

std::size_t alignment_of(Subject subject) {
  switch (subject) {
    case Subject::native_a1: return 1;
    case Subject::native_a2: return 2;
    case Subject::native_a4: return 4;
    case Subject::native_a8: return 8;
    default: return 16;
  }
}

std::vector<std::byte> part(std::size_t start, std::size_t size) {
  const auto whole = test::counting(parent_len + start);
  return {whole.begin() + static_cast<std::ptrdiff_t>(start),
          whole.begin() + static_cast<std::ptrdiff_t>(start + size)};
}

/// Thousands of files are cut short and replaced: a disk would be waited for each time.
std::filesystem::path scratch_folder() {
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
}

void count_release(void* context, std::span<std::byte>) noexcept {
  ++*static_cast<unsigned*>(context);
}

}  // namespace

World::World(const Machine& machine, Subject subject)
    : machine_(machine),
      subject_(subject),
      nodes_before_(node_pool::balance_of_thread()),
      gate_(Gate::make(leaf())),
      home_(Home::make(gate_, {.alignment = alignment_of(subject)}).value()) {
  prepare();
}

World::~World() = default;

Ref<Backing> World::leaf() const {
  switch (subject_) {
    case Subject::pooled: return SlabPool::make(checking_);
    case Subject::pinned: return machine_.pinned;
    case Subject::managed: return machine_.managed;
    default: return checking_;
  }
}

/// Whatever exists before the value is made, and is not its own.
void World::prepare() {
  content = part(0, value_len);
  if (is_file(subject_)) scratch_.emplace(test::counting(parent_len), scratch_folder());
  if (subject_ == Subject::watched_source) source_ = test::LazySource::make(content);
  if (subject_ == Subject::device_lazy) {
    frozen_ =
        UnifiedBuffer::create(value_len, {.backing = machine_.device, .wipe = Wipe::no}).value();
    ASSERT_TRUE(frozen_->write_at(0, content).has_value());
  }
  if (subject_ == Subject::adopted_vector) {
    vector_.resize(value_len / sizeof(std::uint32_t));
    std::memcpy(vector_.data(), content.data(), value_len);
  }
  if (subject_ == Subject::external_aligned || subject_ == Subject::external_odd) {
    // An address of which exactly the lowest 6 bits, or none, are zero.
    foreign_ = std::make_unique<std::byte[]>(512);
    auto* first = foreign_.get();
    while (external_alignment(first) < 128) ++first;
    first += subject_ == Subject::external_odd ? 65 : 64;
    lent_ = {first, value_len};
    std::copy(content.begin(), content.end(), first);
  }
}

Result<void> World::make() {
  switch (subject_) {
    case Subject::shared_sole:
    case Subject::shared_whole:
    case Subject::shared_odd_window:
    case Subject::nested_shared: return make_shared();
    case Subject::external_aligned:
    case Subject::external_odd:
    case Subject::adopted_vector: return make_foreign();
    case Subject::file:
    case Subject::file_view:
    case Subject::mapped_file: return make_of_file();
    case Subject::device_lazy:
    case Subject::watched_source: return make_unread();
    default: ASSAY_TRY(value, Bytes::from_span(content, home())); return {};
  }
}

Result<void> World::make_shared() {
  const bool whole = subject_ == Subject::shared_sole || subject_ == Subject::shared_whole;
  auto all = test::counting(whole ? value_len : parent_len);
  ASSAY_TRY(Bytes parent, Bytes::from_span(all, home()));
  if (subject_ == Subject::nested_shared) {
    // A window of a window of a shared half, whose other half is written by someone else.
    ASSAY_TRY(Bytes half, parent.split(32));
    ASSAY_TRY_VOID(half.shared());
    ASSAY_TRY(const Bytes window, half.view(8, 120));
    ASSAY_TRY(value, window.view(0, value_len));
    content = part(40, value_len);
    others.push_back({std::move(parent), part(0, 32)});
    others.push_back({std::move(half), part(32, parent_len - 32)});
    return {};
  }
  ASSAY_TRY_VOID(parent.shared());
  if (subject_ == Subject::shared_odd_window) {
    ASSAY_TRY(value, parent.view(3, 3 + value_len));
    content = part(3, value_len);
  } else {
    ASSAY_TRY(value, parent.clone());
  }
  if (subject_ != Subject::shared_sole) others.push_back({std::move(parent), std::move(all)});
  return {};
}

Result<void> World::make_foreign() {
  if (subject_ == Subject::adopted_vector) {
    ASSAY_TRY(value, Bytes::from_vector(std::move(vector_), home()));
    return {};
  }
  const bool odd = subject_ == Subject::external_odd;
  const ExternalMemory external{
      .memory = lent_,
      .access = odd ? ExternalAccess::writable : ExternalAccess::immutable,
      .release = &count_release,
      .context = &given_back_,
      .property = odd ? AllocationProperty::other : AllocationProperty::native};
  ASSAY_TRY(value, Bytes::from_external(external, home()));
  lent_out_ = true;
  return {};
}

Result<void> World::make_of_file() {
  if (subject_ == Subject::file_view) {
    ASSAY_TRY(Bytes parent, Bytes::from_file(scratch_->path(), {}, home()));
    ASSAY_TRY(value, parent.view(view_offset, view_offset + value_len));
    content = part(view_offset, value_len);
    others.push_back({std::move(parent), part(0, parent_len)});
    return {};
  }
  const FileRegion region{.offset = file_offset, .size = value_len};
  content = part(file_offset, value_len);
  ASSAY_TRY(value, subject_ == Subject::file ? Bytes::from_file(scratch_->path(), region, home())
                                             : Bytes::map_file(scratch_->path(), region, home()));
  return {};
}

Result<void> World::make_unread() {
  if (subject_ == Subject::device_lazy) {
    ASSAY_TRY(value, frozen_->freeze(home()));
    return {};
  }
  ASSAY_TRY(value, Bytes::from_source(source_, source_->block(), AllocationProperty::file, home()));
  lent_out_ = true;
  ASSAY_TRY(Bytes clone, value.clone());
  others.push_back({std::move(clone), content});
  return {};
}

void World::bring_to(State state) {
  switch (state) {
    case State::fresh: return;
    case State::read: ASSERT_TRUE(value.read().has_value()); return;
    case State::written:
      for (const std::size_t at : {std::size_t{0}, value_len - 1}) {
        content[at] = std::byte{0xfe};
        value.write().value()[at] = content[at];
      }
      return;
    case State::failed_once: {
      const bool source_fails = has_failing_source(subject_);
      arm(source_fails ? Fault::source_error : Fault::out_of_memory);
      const bool read_fails = source_fails || !value.is_resident();
      ASSERT_FALSE(read_fails ? value.read().has_value() : value.reserve(4096).has_value());
      disarm();
      return;
    }
    case State::moved_from:
      others.push_back({std::move(value), std::move(content)});
      content.clear();
      return;
  }
}

void World::arm(Fault fault) {
  switch (fault) {
    case Fault::none: return;
    case Fault::missing: std::filesystem::remove(scratch_->path()); return;
    case Fault::too_short: scratch_->resize(50); return;
    case Fault::replaced: scratch_->replace(test::counting(parent_len, 77)); return;
    case Fault::truncated: scratch_->resize(0); return;
    case Fault::source_error:
      if (source_) source_->fail_all(true);
      if (!source_) machine_.model->set_faults("cuMemcpyDtoHAsync_v2:every:1:1");
      return;
    case Fault::out_of_memory: gate_->refuses = true; return;
    case Fault::out_of_nodes: node_pool::fail_nth(1); return;
    case Fault::out_of_second_node: node_pool::fail_nth(2); return;
  }
}

void World::disarm() {
  node_pool::fail_nth(0);
  gate_->refuses = false;
  if (source_) source_->fail_all(false);
  if (subject_ == Subject::device_lazy) machine_.model->set_faults("");
}

std::string World::close() {
  value = Bytes();
  others.clear();
  frozen_.reset();
  std::string wrong;
  const auto blame = [&](bool good, const char* what) {
    if (!good) wrong += std::string(wrong.empty() ? "" : ", ") + what;
  };
  blame(gate_->live == 0, "a block was not given back");
  blame(checking_->faults.empty(), "a block went back with another request");
  blame(machine_.device->usage().live_blocks == 0, "a block of the device was not given back");
  const unsigned lent = lent_out_ ? 1 : 0;
  if (source_) blame(source_->releases() == lent, "the source was not let go once");
  if (!lent_.empty()) blame(given_back_ == lent, "foreign memory was not returned once");
  home_ = {};
  if (gate_->live != 0) {  // a backing that dies before its blocks would end the whole run
    (void)Ref<Gate>(gate_).detach();
    (void)Ref<test::CheckingBacking>(checking_).detach();
  }
  gate_ = {};
  checking_ = {};
  source_ = {};
  blame(node_pool::balance_of_thread() == nodes_before_, "a node leaked");
  return wrong;
}

}  // namespace assay::matrix
