// PartialUploads: what has come of bodies whose connection was lost, so that only the rest is sent
// again.
//
// Advice, not a promise: what is missing or damaged comes once more, so nothing is synced and a
// full disk only means less of it. One file a device below partial/ of the store's folder, for its
// latest body: a device can take no more room by beginning others. A value without threads; called
// on the server's thread for files. Source: Skep protocol 1.0, section 8.1.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "aggregator/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

class PartialUploads {
 public:
  // All files together take at most `limit` bytes: a body that would go beyond it is not kept.
  PartialUploads(std::string folder, std::uint64_t limit);

  struct Kept {
    DeviceId device;
    AttemptKey attempt;
    std::uint64_t bytes = 0;
  };
  // Makes the folder if it is missing and reads what an earlier process left; what is damaged, or
  // older than a day, is removed. SKEP-4001.
  [[nodiscard]] Result<std::vector<Kept>> Open(WallMs now);

  // Adds bytes from `offset` of the body that `begin` announces. From 0 it takes the place of what
  // is there of the device; elsewhere it must go on exactly where the file ends, or nothing is
  // kept. False: not kept.
  bool Append(const DeviceId& device, const wire::UploadBegin& begin, std::uint64_t offset,
              BytesView bytes);
  // The beginning of this very body: same task, id, size, hash and encoding. Empty if there is
  // none.
  [[nodiscard]] Bytes Load(const DeviceId& device, const wire::UploadBegin& begin) const;
  void Drop(const DeviceId& device);

 private:
  struct File {
    std::uint64_t held = 0;  // bytes of the body
    std::uint64_t size = 0;  // of the file
  };
  [[nodiscard]] std::string PathOf(const DeviceId& device) const;
  [[nodiscard]] bool Write(const DeviceId& device, File& file, BytesView head, BytesView bytes);

  std::string folder_;
  std::uint64_t limit_;
  std::uint64_t total_ = 0;  // sizes of all files
  std::map<DeviceId, File> files_;
};

}  // namespace skep::aggregator
