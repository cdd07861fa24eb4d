// Allocate, share, view, copy on write, wipe: what a Bytes does, in twenty lines.
#include <fmt/format.h>

#include "assay/backing/heap.hpp"
#include "assay/buffer/format.hpp"

int main() {
  using namespace assay;
  const auto home = Home::make(Heap::make(), {.wipe = Wipe::on_release}).value();
  Bytes message = Bytes::from_text("attack at dawn", *home).value();

  if (!message.shared()) return 1;                  // a flag: nothing is copied
  const Bytes when = message.view(10, 14).value();  // a window on the same bytes
  Bytes draft = message.clone().value();            // another handle

  const auto copied = payload_bytes_copied();
  draft.write().value()[0] = std::byte{'A'};  // others look on, so this handle forks
  fmt::print("forked {} bytes, view still aliases: {}\n", payload_bytes_copied() - copied,
             when.data() == message.data() + 10);
  fmt::print("{}\n{}\n", message, draft);
  return message == draft ? 1 : 0;
}  // both blocks are overwritten before the heap has them back
