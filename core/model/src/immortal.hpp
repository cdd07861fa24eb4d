// Immortal: an object that no static destructor ends.
#pragma once

#include <new>
#include <utility>

namespace assay::cuda::model {

/// Holds a T for ever: the program's threads and destructors may call the model until the process
/// is gone. `static Immortal<std::mutex> lock;`
template <class T>
class Immortal {
 public:
  template <class... Arguments>
  explicit Immortal(Arguments&&... arguments)
      : object_(::new(storage_) T(std::forward<Arguments>(arguments)...)) {}
  T& operator*() noexcept { return *object_; }

 private:
  alignas(T) unsigned char storage_[sizeof(T)];
  T* object_;
};

}  // namespace assay::cuda::model
