// Catalogue: configuration, values, data, models, resources, rounds and runs.
#include <array>

#include "shared/base/error_catalogue.h"

namespace skep {
namespace {

constexpr std::array kEntries = std::to_array<ErrorEntry>({
    {1010, "configuration file cannot be read",
     "The file is missing, is no file, is larger than 1 MiB, or this user may not read it.",
     "A wrong path; a file that belongs to another user.",
     "Look at path, owner and mode; skep-simulator new makes a file to start from."},
    {1011, "schema is missing", "server.toml does not say which version of the file it is.",
     "A file written by hand.", "Add schema = 1 as the first line."},
    {1012, "unknown key", "The file, or a --set, names a key or a section that does not exist.",
     "A typing error; a key in the wrong section; a name of another framework.",
     "Take the suggested name, or look at explain SECTION."},
    {1013, "ambiguous key",
     "\"epochs\" means local epochs in some frameworks and rounds in others.",
     "A file of another framework.", "Give client.local_epochs or training.rounds."},
    {1014, "key given twice, by name and by alias", "Two names of one key stand in the file.",
     "A line copied from another framework's file beside Skep's own.", "Keep one of the two."},
    {1015, "not TOML", "The file stops being TOML at the place shown; nothing after it was read.",
     "A missing quote, bracket or value; the same key twice; a file in another encoding than "
     "UTF-8.",
     "Mend the line shown."},
    {1018, "file newer than this program",
     "The file's schema number is higher than what this program reads.",
     "A file of a newer version.", "Use that version, or write the file for this one."},
    {1019, "value not in this build", "The key or value is known, but this build does not have it.",
     "A feature of another version or of another build.",
     "Take one of the values that the message lists."},
    {1101, "wrong type", "A value is of another type than its key takes.",
     "Quotes missing or too many; a duration or size without its unit.",
     "Write the value as the message says."},
    {1102, "out of range", "A value lies outside its range or is none of the allowed words.",
     "A typing error; a unit mistaken.",
     "Take a value from the range shown; explain KEY tells more."},
    {1103, "contradicting keys",
     "Two values cannot hold together, or one needs another that is missing.",
     "A key left over from an earlier version of the file; --set beside a key that excludes it.",
     "Remove or change one of the two."},
    {1104, "too little data for min_examples",
     "The data cannot give every client data.min_examples examples.",
     "More clients than the data carry; a very small dirichlet_alpha with partition_on_failure = "
     "\"error\".",
     "Lower data.num_clients or data.min_examples."},
    {1105, "too few clients", "A round asks for more clients than there are.",
     "clients_per_round or over_selection too high; fewer owners in the data than expected.",
     "Lower training.clients_per_round or over_selection, or raise data.num_clients."},
    {1106, "not with this algorithm", "A key belongs to another training.algorithm.",
     "A key left over from another experiment.", "Remove the key, or choose its algorithm."},
    {1201, "data missing",
     "A data file or folder is not there, cannot be read, or holds nothing usable.",
     "A wrong path; paths are relative to the configuration file.", "Correct data.path."},
    {1202, "data malformed",
     "A data file does not have the form that its format, or the data specification, asks for.",
     "A truncated or damaged file; another delimiter, encoding or decimal sign; a column or class "
     "that does not exist.",
     "Mend the line or the key that the message names."},
    {1203, "data set not installed", "The data set comes with a package that is not installed.",
     "A fresh machine.", "Install the package that the message names, or give data.path."},
    {1301, "model does not fit",
     "Model, data and initial model disagree about shapes, names or classes.",
     "A wrong model.input or model.classes; an initial model of another architecture.",
     "Leave model.input and model.classes out, or correct the layer that the message names."},
    {1303, "batch norm with a batch of one row",
     "Batch norm cannot train on a batch of a single row: it has no deviation.",
     "batch_size = 1, or a client whose last batch has one row.",
     "Set client.batch_tail = \"merge\", another batch size, or model.normalization = \"group\"."},
    {1302, "model file malformed", "A safetensors file breaks a rule of its format.",
     "A truncated download; a file of another format; tensors that are not 32-bit floats.",
     "Fetch or export the file again."},
    {1401, "memory plan does not fit", "The run needs more memory than there is.",
     "A large model or data set; too many jobs.",
     "Lower run.jobs, or use a machine with more memory."},
    {1402, "optional program missing", "A command needs another program, which is not installed.",
     "A package of its own; a folder that is not in PATH.",
     "Install the package that the message names."},
    {2201, "too many abandoned attempts",
     "max_attempts attempts in a row had fewer than min_reports updates.",
     "Clients fail or drop out; a deadline too short; min_reports too high.",
     "Look at the commonest number in the message; raise report_deadline or lower min_reports."},
    {2203, "every client of the first attempt failed alike",
     "All clients that started failed or were rejected with one number.",
     "A mistake in the data or the model that no repetition mends.",
     "Look at the number and the client in the message; --keep-going tries on."},
});

}  // namespace

std::span<const ErrorEntry> InputErrors() {
  return kEntries;
}

}  // namespace skep
