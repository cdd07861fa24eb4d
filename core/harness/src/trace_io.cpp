// Trace files: reading plain or packed, telling the format, writing whole or not at all.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "assay/harness/rmm_csv.hpp"
#include "assay/harness/trace.hpp"

namespace assay::harness {
namespace {

constexpr std::size_t text_max = std::size_t{2} << 30;

std::unexpected<InputError> refuse(const std::string& path, std::string message) {
  return std::unexpected(InputError{path, 0, std::move(message)});
}

std::string system_message(int native) {
  return std::strerror(native);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Closes now; false if the system reports a late write error.
  bool close() noexcept {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

std::expected<std::string, InputError> read_bytes(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return refuse(path, "cannot be read: " + system_message(errno));
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(path, "cannot be read: " + system_message(errno));
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
    if (bytes.size() > text_max) return refuse(path, "is larger than 2 GiB");
  }
}

struct InflateEnd {
  void operator()(z_stream* stream) const noexcept { ::inflateEnd(stream); }
};

/// Unpacks every member of a gzip file.
std::expected<std::string, InputError> unpack(std::string packed, const std::string& path) {
  z_stream stream{};
  if (::inflateInit2(&stream, 15 + 16) != Z_OK) return refuse(path, "cannot be unpacked");
  const std::unique_ptr<z_stream, InflateEnd> owner(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 1 << 16> buffer;
  const auto refuse_at = [&](std::string_view what) {
    return refuse(
        path, fmt::format("the gzip data is {} at byte {} of {}; {} whole rows precede it", what,
                          packed.size() - stream.avail_in, packed.size(),
                          std::count(text.begin(), text.end(), '\n')));
  };
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int state = ::inflate(&stream, Z_NO_FLUSH);
    text.append(buffer.data(), buffer.size() - stream.avail_out);
    if (text.size() > text_max) return refuse(path, "unpacks to more than 2 GiB");
    if (state == Z_STREAM_END) {
      // Zeros to the end are padding of a tape or a block device, as for gzip itself.
      const std::string_view rest =
          std::string_view(packed).substr(packed.size() - stream.avail_in);
      if (rest.find_first_not_of('\0') == std::string_view::npos) return text;
      if (::inflateReset(&stream) != Z_OK) return refuse_at("damaged");
    } else if (state == Z_BUF_ERROR ||
               (state == Z_OK && stream.avail_in == 0 && stream.avail_out != 0)) {
      return refuse_at("cut off");
    } else if (state != Z_OK) {
      return refuse_at("damaged");
    }
  }
}

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

/// The rename itself reaches the disk with the folder. Some file systems cannot: that is no error.
void sync_folder_of(const std::string& path) noexcept {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) ::fsync(opened.get());
}

bool is_special(const std::string& path) noexcept {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

/// A pipe or a device, such as /dev/stdout, cannot be replaced: it is written to.
std::expected<void, InputError> write_special(const std::string& path, std::string_view text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0 || !write_all(file.get(), text) || !file.close()) {
    return refuse(path, "cannot be written: " + system_message(errno));
  }
  return {};
}

}  // namespace

std::expected<std::string, InputError> read_text(const std::string& path) {
  auto bytes = read_bytes(path);
  if (!bytes || !bytes->starts_with("\x1f\x8b")) return bytes;
  return unpack(std::move(*bytes), path);
}

std::expected<LoadedTrace, InputError> load_trace(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return std::unexpected(text.error());
  if (text->starts_with("assay-trace")) return parse_trace_rows(*text, path);
  return parse_rmm_csv(*text, path);
}

std::expected<void, InputError> write_atomically(const std::string& path, std::string_view text) {
  if (is_special(path)) return write_special(path, text);
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return refuse(path, "cannot be written: " + system_message(errno));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  bool written = ::fchmod(file.get(), 0666 & ~mask) == 0 && write_all(file.get(), text) &&
                 ::fsync(file.get()) == 0;
  int native = errno;
  if (written && !file.close()) {
    written = false;
    native = errno;
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = false;
    native = errno;
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return refuse(path, "cannot be written: " + system_message(native));
  }
  sync_folder_of(path);
  return {};
}

}  // namespace assay::harness
