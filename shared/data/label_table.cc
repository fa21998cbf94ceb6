// What a partition looks like: examples per client and class, and the file partition.csv.
#include <algorithm>
#include <cmath>

#include "shared/data/partition.h"

namespace skep::data {
namespace {

// A CSV field, quoted only where it must be.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

LabelTable TableOf(const Partition& partition, const Dataset& train, std::uint32_t classes) {
  LabelTable table;
  table.classes = classes;
  table.counts.resize(partition.clients.size() * classes);
  table.all.resize(classes);
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    for (const auto* rows : {&partition.clients[k].train, &partition.clients[k].test}) {
      for (const std::uint32_t row : *rows) {
        for (const std::int32_t label : train.LabelsOf(row)) {
          if (label < 0) continue;
          const auto place = static_cast<std::size_t>(label);
          ++table.counts[k * classes + place];
          ++table.all[place];
        }
      }
    }
  }
  double total = 0;
  for (const std::uint64_t count : table.all) total += static_cast<double>(count);
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    const auto* const counts = table.counts.data() + k * classes;
    double size = 0;
    for (std::size_t c = 0; c < classes; ++c) size += counts[c];
    double distance = 0;
    for (std::size_t c = 0; c < classes && size > 0; ++c) {
      distance += std::abs(counts[c] / size - static_cast<double>(table.all[c]) / total);
    }
    table.total_variation.push_back(distance / 2);
  }
  return table;
}

std::string PartitionCsv(const Partition& partition) {
  std::vector<std::pair<std::uint32_t, std::size_t>> rows;
  bool has_owners = false;
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    has_owners = has_owners || !partition.clients[k].name.empty();
    for (const auto* list : {&partition.clients[k].train, &partition.clients[k].test}) {
      for (const std::uint32_t row : *list) rows.emplace_back(row, k);
    }
  }
  std::sort(rows.begin(), rows.end());
  std::string text = has_owners ? "example,client,owner\n" : "example,client\n";
  for (const auto& [row, client] : rows) {
    text += std::to_string(row) + "," + std::to_string(client);
    if (has_owners) text += "," + CsvField(partition.clients[client].name);
    text += "\n";
  }
  return text;
}

}  // namespace skep::data
