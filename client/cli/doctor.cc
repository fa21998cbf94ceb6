#include "client/cli/doctor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "client/cli/local_data.h"
#include "client/cli/settings.h"
#include "shared/base/amounts.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

namespace json = boost::json;

struct Step {
  std::string name;
  int code = 0;
  std::string text;
  std::string advice{};
};

json::object JsonOf(const Step& step) {
  json::object object{{"step", step.name}, {"ok", step.code == 0}};
  if (step.code != 0) object["code"] = step.code;
  object["text"] = step.text;
  if (!step.advice.empty()) object["hint"] = step.advice;
  return object;
}

std::string TextOf(const Step& step) {
  if (step.code == 0) return fmt::format("{:<14} ok         {}\n", step.name, step.text);
  std::string line = fmt::format("{:<14} SKEP-{:<5} {}\n", step.name, step.code, step.text);
  if (!step.advice.empty()) line += fmt::format("{:<25} {}\n", "", step.advice);
  return line;
}

// The library's steps, and then those about the data of client.toml.
class Doctor {
 public:
  Doctor(const GlobalOptions& options, const config::ClientConfig& config)
      : options_(options), config_(config), settings_(options, config) {}

  // The code of the step that failed, or 0.
  int Examine() {
    skep_diagnose(settings_.get(), &Doctor::Hear, this);
    if (failed_ == 0) ExamineData();
    return failed_;
  }
  [[nodiscard]] json::array& steps() { return steps_; }

 private:
  static void Hear(void* user, const char* name, std::int32_t code, const char* found,
                   const char* advice) {
    static_cast<Doctor*>(user)->Tell({name, code, found, advice});
  }

  void Tell(const Step& step) {
    if (step.code != 0) failed_ = step.code;
    if (options_.is_json) {
      steps_.emplace_back(JsonOf(step));
    } else if (!options_.is_quiet || step.code != 0) {
      PrintOut(cli::TextOf(step));
    }
  }

  void ExamineData() {
    const Result<json::object> report = ReportOf(&skep_status_json, settings_);
    const json::object status = report.has_value() ? *report : json::object();
    const bool has_number = status.contains("client");
    const auto number = has_number ? status.at("client").to_number<ClientNumber>() : 0;
    const Result<LocalData> local = LoadLocalData(config_, number, std::nullopt);
    if (!local.has_value()) {
      return Tell({"data", local.error().code, local.error().message, local.error().hint});
    }
    const LocalRows& rows = local->rows;
    std::string text =
        fmt::format("{} examples to train on, {} held out", rows.train.size(), rows.test.size());
    if (!config_.experiment.empty() && !config_.part) {
      text += has_number ? fmt::format(", part {}", number)
                         : ", of part 0: the own number comes with the first task";
    }
    for (const std::string& note : local->notes) text += "; " + note;
    Tell({"data", 0, std::move(text)});
    ExamineTraffic(local->expected, status);
  }

  // A limit that ends the day's work early is no fault, but one wants to know before.
  void ExamineTraffic(const std::optional<ExpectedWork>& expected, const json::object& status) {
    const auto number = [&](const char* key) {
      const json::value* value = status.if_contains(key);
      return value == nullptr ? std::uint64_t{0} : value->to_number<std::uint64_t>();
    };
    const std::uint64_t limit = config_.limits.bytes_per_day;
    const std::uint64_t used = number("up_today") + number("down_today");
    const std::uint64_t left = limit - std::min(limit, used);
    std::string text = AmountText(used) + " of " + AmountText(limit) + " used today";
    const std::optional<std::uint64_t> task = BytesOfTask(expected, status);
    if (task) {
      text += fmt::format("; a task takes about {}, which leaves {} today", AmountText(*task),
                          left / *task);
    }
    const double all = expected && task ? expected->tasks * static_cast<double>(*task) : 0;
    if (all > static_cast<double>(left)) {
      text = fmt::format(
          "warning: {}; the experiment has about {:.0f} for each client ({}): raise "
          "limits.bytes_per_day, or the rest waits for the next day",
          text, std::max(1.0, expected->tasks), AmountText(static_cast<std::uint64_t>(all)));
    }
    Tell({"traffic", 0, std::move(text)});
  }

  // Down and up: as the experiment's model is, or as the last one was.
  [[nodiscard]] static std::optional<std::uint64_t> BytesOfTask(
      const std::optional<ExpectedWork>& expected, const json::object& status) {
    if (expected && expected->model_bytes > 0) return 2 * expected->model_bytes;
    const json::value* last = status.if_contains("last_task");
    if (last == nullptr || last->at("outcome").as_string() != "contributed") return std::nullopt;
    const std::uint64_t bytes =
        last->at("up").to_number<std::uint64_t>() + last->at("down").to_number<std::uint64_t>();
    return bytes > 0 ? std::optional<std::uint64_t>(bytes) : std::nullopt;
  }

  const GlobalOptions& options_;
  const config::ClientConfig& config_;
  ClientOptions settings_;
  json::array steps_;
  int failed_ = 0;
};

}  // namespace

int RunDoctor(const GlobalOptions& options) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  Doctor doctor(options, *config);
  const int code = ExitCodeOf(doctor.Examine());
  if (!options.is_json) return code;
  const json::object object{{"schema", 1},
                            {"status", code == kDone ? "ok" : "error"},
                            {"exit_code", code},
                            {"data", {{"steps", std::move(doctor.steps())}}}};
  PrintOut(json::serialize(object) + "\n");
  return code;
}

}  // namespace skep::cli
