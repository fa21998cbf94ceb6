// What client.toml says, as options of the library.
//
// Source: docs/reference/client.md; skep/skep.h.
#pragma once

#include <skep/skep.h>

#include <boost/json/object.hpp>

#include <memory>
#include <string>

#include "client/cli/console.h"
#include "shared/base/result.h"
#include "shared/config/client_config.h"

namespace skep::cli {

// Options and their strings. A value of one place: the options point into it.
class ClientOptions {
 public:
  ClientOptions(const GlobalOptions& global, const config::ClientConfig& config);
  ClientOptions(const ClientOptions&) = delete;
  ClientOptions& operator=(const ClientOptions&) = delete;

  void SetJoinString(std::string text) { join_string_ = std::move(text); }
  // "cpu:avx2": what an experiment pins, so that results are the simulator's.
  void SetDevice(std::string device) { device_ = std::move(device); }
  [[nodiscard]] const skep_options* get();

  // The join string is a secret.
  ~ClientOptions();

 private:
  config::ClientConfig config_;
  std::string join_string_;
  std::string device_;
  std::string policy_;
  skep_options options_{};
};

// What the library said, as an error of the command line.
[[nodiscard]] Error ErrorOf(const skep_outcome& outcome);

// What the library says of the folder. Its errors.
using GetJson = skep_status (*)(const skep_options*, char*, std::size_t*, skep_outcome*);
[[nodiscard]] Result<boost::json::object> ReportOf(GetJson get, ClientOptions& options);

// SKEP-4004 for a folder that no device enrolled in; nothing is made.
[[nodiscard]] Status CheckEnrolled(ClientOptions& options);

// A client with its callbacks gone when it goes.
struct FreeClient {
  void operator()(skep_client* client) const { skep_client_free(client); }
};
using ClientPtr = std::unique_ptr<skep_client, FreeClient>;
[[nodiscard]] Result<ClientPtr> OpenClient(ClientOptions& options, const skep_data_source& data);
// For what needs no data.
[[nodiscard]] skep_data_source NoData();

}  // namespace skep::cli
