#include "shared/data/dirichlet.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace skep::data {
namespace {

using RowList = std::vector<std::uint32_t>;

std::vector<RowList> RowsByClass(const Dataset& train, std::uint32_t classes) {
  std::vector<RowList> rows(classes);
  for (std::uint32_t row = 0; row < train.rows; ++row) {
    rows[static_cast<std::size_t>(train.labels[row])].push_back(row);
  }
  return rows;
}

// Clients that hold their even share take no more of the next class.
void Balance(std::vector<double>& shares, const std::vector<RowList>& lists, std::size_t rows) {
  double total = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    if (lists[k].size() * shares.size() >= rows) shares[k] = 0;
    total += shares[k];
  }
  for (double& share : shares) {
    share = total > 0 ? share / total : 1.0 / static_cast<double>(shares.size());
  }
}

void ShareOut(const RowList& rows, const std::vector<double>& shares, std::vector<RowList>& lists) {
  double sum = 0;
  std::size_t from = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    sum += shares[k];
    const double cut = std::floor(static_cast<double>(rows.size()) * sum);
    std::size_t to = std::min(static_cast<std::size_t>(cut), rows.size());
    if (k + 1 == shares.size()) to = rows.size();
    lists[k].insert(lists[k].end(), rows.begin() + static_cast<std::ptrdiff_t>(from),
                    rows.begin() + static_cast<std::ptrdiff_t>(to));
    from = to;
  }
}

std::vector<RowList> Attempt(const std::vector<RowList>& by_class, std::size_t rows,
                             std::uint32_t attempt, const PartitionOptions& options) {
  std::vector<RowList> lists(options.num_clients);
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    RandomStream stream(options.partition_seed, {.purpose = Purpose::kPartition,
                                                 .client = static_cast<std::uint32_t>(c),
                                                 .round = attempt});
    RowList order = by_class[c];
    stream.Shuffle(std::span(order));
    std::vector<double> shares = DrawShares(stream, lists.size(), options.dirichlet_alpha);
    if (options.self_balancing) Balance(shares, lists, rows);
    ShareOut(order, shares, lists);
  }
  return lists;
}

RowList TooSmall(const std::vector<RowList>& lists, std::uint32_t min_examples) {
  RowList clients;
  for (std::size_t k = 0; k < lists.size(); ++k) {
    if (lists[k].size() < min_examples) clients.push_back(static_cast<std::uint32_t>(k));
  }
  return clients;
}

// Moves examples one by one from the largest client to the clients that are too small. A giver
// never becomes a taker: while anyone is too small, the largest client is above the least.
class Repair {
 public:
  Repair(std::vector<RowList>& lists, const Dataset& train, std::uint32_t classes)
      : lists_(lists), train_(train), classes_(classes) {
    for (std::size_t k = 0; k < lists.size(); ++k) by_size_.insert(SizeOf(k));
  }

  std::uint64_t Run(std::uint32_t min_examples) {
    std::uint64_t moved = 0;
    for (const std::uint32_t small : TooSmall(lists_, min_examples)) {
      while (lists_[small].size() < min_examples) {
        const std::size_t largest = by_size_.begin()->second;
        by_size_.erase(SizeOf(largest));
        by_size_.erase(SizeOf(small));
        lists_[small].push_back(TakeFrom(largest));
        by_size_.insert(SizeOf(largest));
        by_size_.insert(SizeOf(small));
        ++moved;
      }
    }
    for (auto& [giver, by_class] : givers_) {
      lists_[giver].clear();
      for (const RowList& rows : by_class) {
        lists_[giver].insert(lists_[giver].end(), rows.begin(), rows.end());
      }
    }
    return moved;
  }

 private:
  // Ordered by size, largest first, then by client number.
  using Size = std::pair<std::int64_t, std::size_t>;

  [[nodiscard]] Size SizeOf(std::size_t client) const {
    return {-static_cast<std::int64_t>(lists_[client].size()), client};
  }

  std::uint32_t TakeFrom(std::size_t client) {
    const auto [giver, is_new] = givers_.try_emplace(client, classes_);
    if (is_new) {
      for (const std::uint32_t row : lists_[client]) {
        giver->second[static_cast<std::size_t>(train_.labels[row])].push_back(row);
      }
    }
    const auto largest =
        std::max_element(giver->second.begin(), giver->second.end(),
                         [](const RowList& a, const RowList& b) { return a.size() < b.size(); });
    const std::uint32_t row = largest->back();
    largest->pop_back();
    lists_[client].pop_back();  // its length counts; its content is put together at the end
    return row;
  }

  std::vector<RowList>& lists_;
  const Dataset& train_;
  std::uint32_t classes_;
  std::set<Size> by_size_;
  std::map<std::size_t, std::vector<RowList>> givers_;
};

Error StillTooSmall(const RowList& clients, const PartitionOptions& options) {
  constexpr std::size_t kListed = 10;
  std::string names;
  for (std::size_t i = 0; i < std::min(clients.size(), kListed); ++i) {
    names += (i == 0 ? "" : ", ") + std::to_string(clients[i]);
  }
  if (clients.size() > kListed)
    names += " and " + std::to_string(clients.size() - kListed) + " more";
  return Error{1104,
               "after " + std::to_string(options.partition_attempts) +
                   " attempts fewer than min_examples = " + std::to_string(options.min_examples) +
                   " examples at client " + names,
               "raise data.dirichlet_alpha, lower data.min_examples, or set"
               " data.partition_on_failure = \"repair\""};
}

}  // namespace

std::vector<double> DrawShares(RandomStream& stream, std::size_t clients, double alpha) {
  std::vector<double> logs(clients);
  for (double& log : logs) {
    const double gamma = stream.Gamma(alpha + 1);
    const double uniform = 1.0 - stream.Uniform();
    log = std::log(gamma) + std::log(uniform) / alpha;
  }
  const double most = *std::max_element(logs.begin(), logs.end());
  double total = 0;
  for (double& log : logs) {
    log = std::exp(log - most);
    total += log;
  }
  for (double& share : logs) share /= total;
  return logs;
}

Result<std::vector<RowList>> SplitDirichlet(const Dataset& train, std::uint32_t classes,
                                            const PartitionOptions& options,
                                            std::vector<std::string>& notes) {
  const std::vector<RowList> by_class = RowsByClass(train, classes);
  std::vector<RowList> lists;
  for (std::uint32_t attempt = 0; attempt < options.partition_attempts; ++attempt) {
    lists = Attempt(by_class, train.rows, attempt, options);
    if (TooSmall(lists, options.min_examples).empty()) return lists;
  }
  if (!options.repair) return StillTooSmall(TooSmall(lists, options.min_examples), options);
  const std::uint64_t moved = Repair(lists, train, classes).Run(options.min_examples);
  notes.push_back("the Dirichlet split left clients below " + std::to_string(options.min_examples) +
                  " examples after " + std::to_string(options.partition_attempts) +
                  " attempts: moved " + std::to_string(moved) + " examples to them");
  return lists;
}

}  // namespace skep::data
