// The command `new`: a folder with an experiment file that runs as it is.
#pragma once

#include <string>

#include "simulator/console.h"

namespace skep::simulator {

struct NewOptions {
  std::string name;         // folder to make
  std::string template_;    // fashion, csv, shakespeare, sensors; empty: csv with `data`, else
                            // fashion
  std::string data;         // a table of one's own (shakespeare: a text), or empty
  std::string client;       // its column that says who owns a row, or empty
  std::string label;        // its column to learn, or empty: the last one
  bool has_header = false;  // data.header
  std::string missing;      // data.missing, or empty
  std::string decimal;      // data.decimal, or empty
};
[[nodiscard]] int NewCommand(const NewOptions& options, const Console& console);

}  // namespace skep::simulator
