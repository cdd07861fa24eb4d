// BytesWorld: running commands, and what is true of every value after each of them.
#include "bytes_world.hpp"

namespace assay::properties {

BytesWorld::BytesWorld(const BytesOps& ops, const Setup& setup)
    : ops_(ops),
      setup_(setup),
      leaf_(CheckingBacking::make({.fresh_fill = setup.fresh_fill})),
      faulty_(Fault::make(setup.home == nullptr ? Ref<Backing>(leaf_)
                                                : setup.home->make({leaf_}).value())),
      home_(Home::make(faulty_, {.wipe = setup.wipe}).value()) {
  for (Bytes& value : values_) value = empty();
  sources_.device = setup.device;
  model_.spoiled.push_back(false);  // file 1
}

BytesWorld::~BytesWorld() {
  node_pool::fail_nth(0);
}

std::string BytesWorld::run(const BytesCommands& commands, Injection injection) {
  injection_ = injection;
  switch (injection.what) {
    case Injection::What::nothing: break;
    case Injection::What::node: node_pool::fail_nth(injection.nth); break;
    case Injection::What::allocation:
      faulty_->plan(Fault::On::allocate, {.nth = injection.nth});
      break;
    case Injection::What::resize: faulty_->plan(Fault::On::resize, {.nth = injection.nth}); break;
    case Injection::What::read: sources_.watched->fail_nth(injection.nth); break;
  }
  for (std::size_t i = 0; i < commands.size() && fault_.empty(); ++i) {
    step(commands[i]);
    check_values();
    if (!fault_.empty()) fault_ = fmt::format("step {}: {}", i, fault_);
  }
  pending_ = injections_left() != 0;
  if (fault_.empty()) check_unread();
  for (Bytes& value : values_) ops_.drop(value, *leaf_);
  if (fault_.empty()) fault_ = sources_.fault();
  if (fault_.empty() && backing().usage().live_blocks != 0) fault_ = "a block leaked";
  if (fault_.empty() && !leaf_->faults.empty()) fault_ = leaf_->faults.front();
  return fault_;
}

std::uint64_t BytesWorld::injections_left() const {
  switch (injection_.what) {
    case Injection::What::nothing: break;
    case Injection::What::node: return node_pool::failure_pending() ? 1 : 0;
    case Injection::What::allocation: return 1 - faulty_->injected(Fault::On::allocate);
    case Injection::What::resize: return 1 - faulty_->injected(Fault::On::resize);
    case Injection::What::read: return sources_.watched->failure_pending() ? 1 : 0;
  }
  return 0;
}

bool BytesWorld::may_fail_with(ErrorCode code) const {
  const bool of_read = injection_.what == Injection::What::read;
  return code == (of_read ? ErrorCode::read_failed : ErrorCode::out_of_memory);
}

BytesWorld::Before BytesWorld::state_of(const Bytes& value) {
  const bool resident = value.is_resident();
  return {resident ? value.data() : nullptr,
          value.len(),
          value.capacity(),
          value.is_shared(),
          resident,
          value.retained_bytes(),
          value.property()};
}

std::array<BytesWorld::Before, slot_count> BytesWorld::state_of_all() const {
  std::array<Before, slot_count> states{};
  for (std::size_t i = 0; i < slot_count; ++i) states[i] = state_of(values_[i]);
  return states;
}

BytesWorld::Prediction BytesWorld::brings(const ModelValue& value, std::size_t bytes) {
  if (bytes == 0) return {};
  if (model_.lost(value)) return fails(ErrorCode::source_changed);
  if (!model_.unread(value)) return copies(bytes);
  return {.reads = {1, bytes}};
}

BytesWorld::Prediction BytesWorld::reads(const ModelValue& value) {
  if (model_.lost(value)) return fails(ErrorCode::source_changed);
  if (!model_.unread(value)) return {};
  return {.reads = {1, model_.root(value).size}};
}

void BytesWorld::normalise(const Bytes& value, ModelValue& model) {
  if (!model.content.empty()) return;
  model.group = 0;
  if (!value.has_block()) {
    model.root = 0;
    model.start = 0;
  }
}

void BytesWorld::put(std::size_t slot, Bytes value, ModelValue model) {
  ops_.drop(values_[slot], *leaf_);
  values_[slot] = std::move(value);
  model_.slots[slot] = std::move(model);
  normalise(values_[slot], model_.slots[slot]);
}

void BytesWorld::step(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  switch (command.operation) {
    case BytesOperation::make:
    case BytesOperation::make_room:
    case BytesOperation::make_constant:
    case BytesOperation::make_vector:
    case BytesOperation::make_lazy: make(command); break;
    case BytesOperation::make_file:
    case BytesOperation::make_mapped: make_of_file(command); break;
    case BytesOperation::make_device: make_device(command); break;
    case BytesOperation::drop: put(slot, empty(), {}); break;
    case BytesOperation::move:
      if (slot == b_of(command)) break;
      put(b_of(command), std::move(values_[slot]), std::exchange(model_.slots[slot], {}));
      values_[slot] = empty();  // one that was moved from is at home on the host
      break;
    case BytesOperation::clone: clone(command); break;
    case BytesOperation::view: view(command); break;
    case BytesOperation::split: split(command); break;
    case BytesOperation::join: join(command); break;
    case BytesOperation::share: share(command); break;
    case BytesOperation::truncate: truncate(command); break;
    case BytesOperation::read:
    case BytesOperation::read_no_copy: read(command); break;
    case BytesOperation::copy_into: copy_into(command); break;
    case BytesOperation::read_chunks: read_chunks(command); break;
    case BytesOperation::equals: equals(command); break;
    case BytesOperation::hash: hash(command); break;
    case BytesOperation::format: format(command); break;
    case BytesOperation::write:
    case BytesOperation::write_no_copy: write(command); break;
    case BytesOperation::extend:
    case BytesOperation::extend_self:
    case BytesOperation::resize:
    case BytesOperation::reserve: grow(command); break;
    case BytesOperation::compact: compact(command); break;
    case BytesOperation::into_vec: into_vec(command); break;
    case BytesOperation::into_owned:
      if (command.flag) {
        into_owned<std::uint32_t>(command);
      } else {
        into_owned<std::byte>(command);
      }
      break;
    case BytesOperation::detach: detach(command); break;
    case BytesOperation::spoil_file: {
      const int number = sources_.file.number();
      const auto change = static_cast<WorldFile::Change>(
          command.y % static_cast<std::uint16_t>(WorldFile::Change::count));
      const bool noticed = sources_.file.apply(change, command.x);
      if (noticed) model_.spoiled[static_cast<std::size_t>(number)] = true;
      if (sources_.file.number() > number) {
        model_.spoiled.resize(static_cast<std::size_t>(sources_.file.number()) + 1, false);
      }
      break;
    }
    case BytesOperation::count: break;
  }
}

/// Every value is as the model says, and no exclusive range meets any other value. Looking so
/// reads nothing.
void BytesWorld::check_values() {
  const SourceReads before = source_reads();
  for (std::size_t i = 0; i < slot_count; ++i) {
    const Bytes& value = values_[i];
    check_value(value, model_.slots[i]);
    for (std::size_t j = 0; j < slot_count && value.is_exclusive(); ++j) {
      const Bytes& other = values_[j];
      if (i == j || !other.has_block() || !other.is_resident()) continue;
      expect(value.data() + value.capacity() <= other.data() ||
                 other.data() + other.capacity() <= value.data(),
             "an exclusive range overlaps another value");
    }
  }
  expect(source_reads() == before, "a fact read a source");
}

void BytesWorld::check_value(const Bytes& value, const ModelValue& model) {
  ModelRoot& root = model_.root(model);
  expect(value.len() == model.len(), "length differs from the model");
  expect(value.is_shared() == model.shared(), "shared differs from the model");
  expect(&value.home() == home_.get(), "a value left its home");
  expect(value.has_block() == (model.root != 0), "has_block differs from the model");
  expect(value.is_resident() == root.resident, "residency differs from the model");
  expect(model.shared() ? value.capacity() == value.len() : value.capacity() >= value.len(),
         "capacity differs from the model");
  const bool in_file = root.place == Place::mapped || root.place == Place::lazy;
  const bool named = in_file && model_.origin(model).file != 0;
  expect(named ? value.path() == std::string(sources_.file.path()) : *value.path() == '\0',
         "path differs from the model");
  const bool pinned = backing().can(Capabilities::device_access);
  AllocationProperty property =
      pinned && model.root != 0 ? AllocationProperty::pinned : AllocationProperty::native;
  if (root.place == Place::vector || root.place == Place::owned) {
    property = AllocationProperty::native;
  } else if (root.place == Place::constant) {
    property = AllocationProperty::other;
  } else if (root.place == Place::mapped || root.unread()) {
    property = model_.origin(model).property;
  }
  expect(ops_.property(value) == property, "property differs from the model");
  check_retained(value, model);
  if (!value.is_resident() || !fault_.empty()) return;
  expect(is_aligned(reinterpret_cast<std::uintptr_t>(value.data()), value.align()),
         "align() is not true of the pointer");
  if (value.has_block()) {
    if (root.base == nullptr) root.base = value.data() - model.start;
    expect(value.data() == root.base + model.start, "not where the model says in its block");
  }
  check_content(value, model);
}

void BytesWorld::check_content(const Bytes& value, const ModelValue& model) {
  if (model_.lost(model)) {  // torn, by whoever wrote to the mapped file; but no signal
    std::byte last{};
    for (const std::byte byte : value) last = byte;
    (void)last;
    return;
  }
  expect(std::equal(value.begin(), value.end(), model.content.begin(), model.content.end()),
         "content differs from the model");
}

void BytesWorld::check_retained(const Bytes& value, const ModelValue& model) {
  const ModelRoot& root = model_.root(model);
  const std::size_t retained = ops_.retained(value);
  if (model.root == 0) {
    expect(retained == 0, "retained without a block");
  } else if (root.place == Place::lazy) {
    const std::size_t mirror = root.resident ? backing().footprint({.size = root.size}) : 0;
    expect(retained == mirror + model_.origin(model).kept, "retained differs from the model");
  } else if (root.place != Place::home) {
    expect(retained == root.size, "retained differs from the model");
  } else {
    expect(retained >= value.capacity(), "retained less than the capacity");
  }
}

/// What was never read is still what it was, if its source is.
void BytesWorld::check_unread() {
  node_pool::fail_nth(0);
  sources_.watched->fail_nth(0);
  for (std::size_t i = 0; i < slot_count; ++i) {
    const ModelValue& model = model_.slots[i];
    if (!model_.unread(model)) continue;
    std::vector<std::byte> to(model.len());
    const auto read = ops_.copy_into(values_[i], to, 0);
    if (model_.lost(model)) {
      expect(!read && read.error().code == ErrorCode::source_changed, "a change went unnoticed");
    } else {
      expect(read.has_value() && to == model.content, "unread content differs from the model");
    }
  }
}

}  // namespace assay::properties
