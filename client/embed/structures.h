// Structures of skep/skep.h as they cross the boundary: an older caller's are shorter.
//
// The library reads and writes no byte beyond the smaller of its own and the caller's size; fields
// that the caller lacks keep their default. Any thread. Source: Skep client library, section 5.
#pragma once

#include <skep/skep.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace skep::embed {

// The sizes of structures in the first release: none was ever smaller.
template <class T>
inline constexpr std::size_t kSmallest = sizeof(T);

// Whether it says a size that some version of it has.
template <class T>
[[nodiscard]] bool HasSize(const T& from) {
  return from.struct_size >= kSmallest<T>;
}

// `defaults` with what the caller has set. Precondition: HasSize.
template <class T>
[[nodiscard]] T Read(const T& from, T defaults = {}) {
  std::memcpy(&defaults, &from, std::min<std::size_t>(from.struct_size, sizeof(T)));
  defaults.struct_size = sizeof(T);
  return defaults;
}

// What fits into the caller's structure, which says how large it is. Null: nowhere.
template <class T>
void Write(const T& from, T* to) {
  if (to == nullptr) return;
  const std::uint32_t size = to->struct_size;
  if (size < sizeof size) return;
  std::memcpy(to, &from, std::min<std::size_t>(size, sizeof(T)));
  to->struct_size = size;
}

}  // namespace skep::embed
