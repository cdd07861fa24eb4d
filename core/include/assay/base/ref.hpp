// Intrusive counting: Ref<T> keeps a Counted object alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "assay/base/contract.hpp"

namespace assay {

/// Base of objects that are shared by an intrusive count.
///
/// **Threads** retain and release are safe from any thread; the last release destroys the object
/// on the thread that made it. **Cost** one atomic operation; none for an immortal object.
class Counted {
 public:
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void retain() const noexcept {
    if (!immortal_) count_.fetch_add(1, std::memory_order_relaxed);
  }
  void release_reference() const noexcept {
    if (immortal_) return;
    const auto before = count_.fetch_sub(1, std::memory_order_acq_rel);
    ASSAY_CONTRACT(before != 0, "reference released twice");
    if (before == 1) delete this;
  }
  [[nodiscard]] bool immortal() const noexcept { return immortal_; }

 protected:
  enum class Immortal : bool { no, yes };
  explicit Counted(Immortal immortal = Immortal::no) noexcept
      : immortal_(immortal == Immortal::yes) {}
  virtual ~Counted() = default;

 private:
  mutable std::atomic<std::uint32_t> count_{1};
  const bool immortal_;
};

/// Owning pointer to a Counted object; may be null.
template <class T>
class Ref {
 public:
  Ref() = default;
  /// Takes over the count that `new T` starts with.
  [[nodiscard]] static Ref adopt(T* object) noexcept { return Ref(object); }
  /// Adds a count of its own.
  [[nodiscard]] static Ref retain(T* object) noexcept {
    if (object != nullptr) object->retain();
    return Ref(object);
  }

  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U> other) noexcept : object_(other.detach()) {}  // NOLINT(*-explicit-*)
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release_reference();
  }

  [[nodiscard]] T* get() const noexcept { return object_; }
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  explicit Ref(T* object) noexcept : object_(object) {}
  T* object_ = nullptr;
};

}  // namespace assay
