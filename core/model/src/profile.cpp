#include "profile.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "arena.hpp"
#include "assay/cuda/abi/model_control.hpp"
#include "attributes.hpp"
#include "immortal.hpp"

namespace assay::cuda::model {

namespace {

struct Named {
  const char* name;
  const char* text;  ///< what differs from the defaults, as in a file
};

constexpr Named named_profiles[] = {
    // One H200 under Linux, driver 580: managed memory from both sides at any time, no HMM.
    {"h200", ""},
    // Windows, WSL and older Tegra: the host may not touch managed memory while the device works.
    {"no_concurrent_managed_access",
     "attribute.concurrent_managed_access = 0\n"
     "attribute.can_use_host_pointer_for_registered_mem = 0\n"
     "managed_shares_pages = 0\n"},
    // The oldest driver that assay supports.
    {"driver_11_8", "driver_version = 11080\n"},
    // The first driver with locations and with pools of a largest size. (13.0 is h200's.)
    {"driver_12_2", "driver_version = 12020\n"},
    // As some virtual GPUs are: what came with 10.2 and 11.2 is in the library, not on the device.
    {"no_pools", "attribute.memory_pools_supported = 0\n"},
    {"no_virtual_memory", "attribute.virtual_memory_management_supported = 0\n"},
    {"odd_granularity",
     "granularity_bytes = 4194304\n"
     "recommended_granularity_bytes = 16777216\n"},
    {"two_devices", "devices = 2\n"},
    // Out of memory comes early: 96 MiB on the device, 64 MiB pinned.
    {"small_capacity",
     "capacity_bytes = 100663296\n"
     "host_capacity_bytes = 67108864\n"},
};
static_assert(std::size(named_profiles) == std::size(abi::model_profiles));

const Named* find_named(std::string_view name) {
  for (const Named& profile : named_profiles) {
    if (name == profile.name) return &profile;
  }
  return nullptr;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

template <class Number>
bool read_number(std::string_view text, Number low, Number high, Number& out) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  if (value < low || value > high) return false;
  out = value;
  return true;
}

bool read_flag(std::string_view text, bool& out) {
  int value = 0;
  if (!read_number(text, 0, 1, value)) return false;
  out = value == 1;
  return true;
}

/// A power of two, from a page to 1 GiB.
bool read_granularity(std::string_view text, std::uint64_t& out) {
  std::uint64_t value = 0;
  if (!read_number(text, std::uint64_t{page_size()}, std::uint64_t{1} << 30, value)) return false;
  if ((value & (value - 1)) != 0) return false;
  out = value;
  return true;
}

constexpr std::string_view attribute_prefix = "attribute.";

enum class Outcome : std::uint8_t { good, unknown_key, bad_value };

/// The number of an attribute that is given by number or name, or 0.
int attribute_number(std::string_view name) {
  int number = 0;
  if (read_number(name, 1, static_cast<int>(Profile::attribute_max) - 1, number)) return number;
  for (const AttributeRow& row : attribute_rows) {
    if (name == row.name) number = row.number;
  }
  return number;
}

Outcome set_attribute(Profile& profile, std::string_view name, std::string_view value) {
  const int number = attribute_number(name);
  if (number == 0) return Outcome::unknown_key;
  int read = 0;
  if (!read_number(value, -1, 1 << 30, read)) return Outcome::bad_value;
  profile.attributes[static_cast<std::size_t>(number)] = read;
  return Outcome::good;
}

Outcome set_key(Profile& profile, std::string_view key, std::string_view value) {
  constexpr std::uint64_t bytes_max = 1ULL << 46;
  bool good = false;
  if (key == "driver_version") {
    good = read_number(value, 11000, 99990, profile.driver_version);
  } else if (key == "devices") {
    good = read_number(value, 0, 8, profile.devices);
  } else if (key == "capacity_bytes") {
    good = read_number(value, std::uint64_t{1}, bytes_max, profile.capacity_bytes);
  } else if (key == "host_capacity_bytes") {
    good = read_number(value, std::uint64_t{1}, bytes_max, profile.host_capacity_bytes);
  } else if (key == "fill_bytes") {
    good = read_number(value, std::uint64_t{0}, bytes_max, profile.fill_bytes);
  } else if (key == "seed") {
    good = read_number(value, std::uint64_t{0}, ~std::uint64_t{0}, profile.seed);
  } else if (key == "granularity_bytes") {
    good = read_granularity(value, profile.granularity_bytes);
  } else if (key == "recommended_granularity_bytes") {
    good = read_granularity(value, profile.recommended_granularity_bytes);
  } else if (key == "free_waits") {
    good = read_flag(value, profile.free_waits);
  } else if (key == "managed_shares_pages") {
    good = read_flag(value, profile.managed_shares_pages);
  } else if (key.starts_with(attribute_prefix)) {
    return set_attribute(profile, key.substr(attribute_prefix.size()), value);
  } else {
    return Outcome::unknown_key;
  }
  return good ? Outcome::good : Outcome::bad_value;
}

/// The key under which a second line would say the same: an attribute has a name and a number.
std::string identity_of(std::string_view key) {
  if (!key.starts_with(attribute_prefix)) return std::string(key);
  return "attribute." + std::to_string(attribute_number(key.substr(attribute_prefix.size())));
}

/// What is wrong, or "".
std::string read_text(std::string_view where, std::string_view text, Profile& profile) {
  int line_number = 0;
  std::map<std::string, int> lines;  // of the keys so far
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;

    std::string complaint = std::string(where) + ":" + std::to_string(line_number) + ": ";
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return complaint + "'" + std::string(line) + "' is not `key = value`";
    }
    const std::string_view key = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    Outcome outcome = Outcome::bad_value;
    const auto [earlier, is_new] = lines.try_emplace(identity_of(key), line_number);
    if (key == "base") {
      if (lines.size() > 1) return complaint + "'base' must come before every other key";
      const Named* base = find_named(value);
      if (base != nullptr && read_text(base->name, base->text, profile).empty()) {
        outcome = Outcome::good;
      }
    } else {
      outcome = set_key(profile, key, value);
    }
    if (outcome == Outcome::unknown_key) return complaint + "no key '" + std::string(key) + "'";
    if (outcome == Outcome::bad_value) {
      return complaint + "key '" + std::string(key) + "' cannot be '" + std::string(value) + "'";
    }
    if (!is_new) {
      return complaint + "key '" + std::string(key) + "' was set in line " +
             std::to_string(earlier->second) + " before";
    }
  }
  return "";
}

constexpr std::size_t file_bytes_max = std::size_t{64} << 10;

/// What is wrong, or "". Reads regular files only: a pipe could keep the program waiting, and a
/// device never ends.
std::string read_file(const std::string& path, std::string& text) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) {
    std::string error = "no profile and no readable file '" + path + "'; the profiles are";
    for (const Named& profile : named_profiles) error += std::string(" ") + profile.name;
    return error;
  }
  struct stat status{};
  std::string error;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    error = "'" + path + "' is no regular file";
  }
  while (error.empty()) {
    std::array<char, 4096> part;
    const ssize_t got = read(fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = "'" + path + "' cannot be read: " + std::strerror(errno);
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > file_bytes_max) {
      error = "'" + path + "' is larger than " + std::to_string(file_bytes_max) +
              " bytes, the most that a profile has";
    }
  }
  close(fd);
  return error;
}

void drop_newer_attributes(Profile& profile) {
  for (const AttributeRow& row : attribute_rows) {
    if (row.since > profile.driver_version) {
      profile.attributes[static_cast<std::size_t>(row.number)].reset();
    }
  }
}

struct Loaded {
  Profile profile;
  std::string error;

  Loaded() {
    const char* name = std::getenv(abi::model_profile_variable);
    error = read_profile(name == nullptr || *name == '\0' ? "h200" : name, profile);
    if (error.empty()) return;
    profile.name = name;  // what was asked for, not the default that it did not become
    error = std::string(abi::model_profile_variable) + ": " + error;
    std::fprintf(stderr, "assay model: %s\n", error.c_str());
  }
};

const Loaded& loaded() {
  static Immortal<Loaded> the_profile;
  return *the_profile;
}

}  // namespace

std::string read_profile(const std::string& name_or_path, Profile& out) {
  Profile read;
  for (const AttributeRow& row : attribute_rows) {
    read.attributes[static_cast<std::size_t>(row.number)] = row.value;
  }
  std::string error;
  if (const Named* named = find_named(name_or_path)) {
    read.name = named->name;
    error = read_text(named->name, named->text, read);
  } else {
    std::string text;
    error = read_file(name_or_path, text);
    read.name = name_or_path.substr(name_or_path.rfind('/') + 1);
    if (error.empty()) error = read_text(name_or_path, text, read);
  }
  if (!error.empty()) return error;
  drop_newer_attributes(read);
  out = read;
  return "";
}

const Profile& profile() noexcept {
  return loaded().profile;
}
const std::string& profile_error() noexcept {
  return loaded().error;
}

}  // namespace assay::cuda::model
