// The step size of a client from round to round.
#include <cmath>
#include <limits>
#include <numbers>

#include "shared/config/experiment.h"
#include "shared/config/experiment_values.h"

namespace skep::config {

Schedule ScheduleOf(const std::string& text) {
  if (text == "exponential") return Schedule::kExponential;
  if (text == "step") return Schedule::kStep;
  return text == "cosine" ? Schedule::kCosine : Schedule::kConstant;
}

double LearningRateOf(const ClientTraining& client, std::uint32_t rounds, std::uint32_t round) {
  const double past = round - 1;
  switch (client.schedule) {
    case Schedule::kConstant:
      return client.learning_rate;
    case Schedule::kExponential:
      return client.learning_rate * std::pow(client.learning_rate_decay, past / client.decay_every);
    case Schedule::kStep:
      return client.learning_rate *
             std::pow(client.learning_rate_decay, std::floor(past / client.decay_every));
    case Schedule::kCosine:
      return client.learning_rate * (1 + std::cos(std::numbers::pi * past / rounds)) / 2;
  }
  return client.learning_rate;
}

std::uint32_t FirstIdleRound(const ClientTraining& client, std::uint32_t rounds) {
  // Clients step in single precision.
  const auto is_idle = [&](std::uint32_t round) {
    return static_cast<float>(LearningRateOf(client, rounds, round)) <
           std::numeric_limits<float>::min();
  };
  if (!is_idle(rounds)) return 0;
  // No schedule rises: the rounds before the first idle one train, those after it do not.
  std::uint32_t trains = 0;
  std::uint32_t idle = rounds;
  while (idle - trains > 1) {
    const std::uint32_t middle = trains + (idle - trains) / 2;
    (is_idle(middle) ? idle : trains) = middle;
  }
  return idle;
}

}  // namespace skep::config
