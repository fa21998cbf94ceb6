// Host: a real aggregator with throw-away authorities on loopback, behind two fault proxies: one
// for enrolment and one for the sessions of devices.
//
// Driven by its commands alone, as an operator would. Everything lies in one folder; processes end
// with the object. One thread. Source: docs/conformance.md.
#pragma once

#include <boost/json/value.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/conform/child.h"
#include "client/faultproxy/background.h"
#include "shared/base/result.h"

namespace skep::conform {

struct HostOptions {
  std::string program;  // skep-aggregator
  std::string folder;   // exists
  bool allows_root = false;
  // In place of the proxy for devices: HOST:PORT that they are told.
  std::string advertise = {};
};

class Host {
 public:
  // Ready for devices. SKEP-5401 with what it said if it does not start.
  [[nodiscard]] static Result<std::unique_ptr<Host>> Start(const HostOptions& options);

  [[nodiscard]] faultproxy::BackgroundProxy& devices() { return *devices_; }
  [[nodiscard]] faultproxy::BackgroundProxy& enrolment() { return *enrolment_; }
  [[nodiscard]] std::string PkiFolder() const { return options_.folder + "/agg/store/pki/"; }
  [[nodiscard]] std::string federation() const { return federation_; }

  // The data of a command's answer. Its own error if it refuses.
  [[nodiscard]] Result<boost::json::value> Ask(const std::vector<std::string>& words);
  // A new join string of that population, which is made if it is new.
  [[nodiscard]] Result<std::string> MakeJoinString(const std::string& population);
  // Devices that have enrolled there, and those held in their poll.
  struct Population {
    std::int64_t devices = 0;
    std::int64_t connected = 0;
    std::int64_t held = 0;
  };
  [[nodiscard]] Result<Population> Look(const std::string& population);

 private:
  explicit Host(HostOptions options) : options_(std::move(options)) {}
  [[nodiscard]] Status Prepare();
  // The addresses of devices and enrolment.
  [[nodiscard]] Result<std::pair<std::string, std::string>> Serve();
  [[nodiscard]] std::vector<std::string> Words(const std::vector<std::string>& words) const;

  HostOptions options_;
  std::string federation_;
  std::optional<Child> server_;
  std::unique_ptr<faultproxy::BackgroundProxy> devices_;
  std::unique_ptr<faultproxy::BackgroundProxy> enrolment_;
  std::vector<std::string> populations_;
  int asked_ = 0;
};

// Members of an answer; empty and 0 where they are not there.
[[nodiscard]] std::string TextAt(const boost::json::value& from, const char* key);
[[nodiscard]] std::int64_t NumberAt(const boost::json::value& from, const char* key);

}  // namespace skep::conform
