#include "shared/data/arrays.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "shared/base/try.h"
#include "shared/data/idx.h"
#include "shared/data/table_scan.h"

namespace skep::data {
namespace {

constexpr std::size_t kMostClasses = 4096;

struct ArrayPart {
  RawPart part;
  std::string label_path;
  std::vector<std::int64_t> labels;  // as the file has them
};

Status TakeLabels(IdxArray&& array, ArrayPart& to) {
  if (array.dimensions.size() != 1 || !array.is_integer) {
    return Error{1202, array.path + ": labels are one dimension of integers", ""};
  }
  to.label_path = array.path;
  to.labels.assign(array.bytes.begin(), array.bytes.end());
  for (const double number : array.numbers) to.labels.push_back(static_cast<std::int64_t>(number));
  return Ok();
}

// [rows, height, width] is one plane: [1, height, width]. Other shapes stay.
std::vector<std::uint32_t> InputShape(const std::vector<std::uint32_t>& dimensions) {
  std::vector<std::uint32_t> shape(dimensions.begin() + 1, dimensions.end());
  if (shape.empty()) shape = {1};
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  return shape;
}

Result<ArrayPart> ReadPart(const IdxFiles& files) {
  SKEP_ASSIGN(IdxArray images, ReadIdx(files.images));
  SKEP_ASSIGN(IdxArray labels, ReadIdx(files.labels));
  if (images.dimensions[0] != labels.dimensions[0]) {
    return Error{1202,
                 files.images + " holds " + std::to_string(images.dimensions[0]) + " images, " +
                     files.labels + " " + std::to_string(labels.dimensions[0]) + " labels",
                 ""};
  }
  ArrayPart read;
  read.part.input_shape = InputShape(images.dimensions);
  read.part.rows = images.dimensions[0];
  read.part.source_rows = read.part.rows;
  read.part.bytes = std::move(images.bytes);
  read.part.numbers = std::move(images.numbers);
  read.part.values = (read.part.bytes.size() + read.part.numbers.size()) / read.part.rows;
  SKEP_TRY(TakeLabels(std::move(labels), read));
  return read;
}

Result<std::optional<ArrayPart>> ReadTest(const std::string& folder, const DataOptions& options,
                                          std::vector<std::string>& notes) {
  SKEP_ASSIGN(std::optional<IdxFiles> files, FindIdx(folder, "t10k"));
  if (files && !options.test_path.empty()) {
    notes.push_back("data.test_path is not used: " + folder + " has a test part of its own");
  }
  if (!files && options.test_path.empty()) return std::optional<ArrayPart>();
  if (!files) {
    SKEP_ASSIGN(files, FindIdx(options.test_path, "t10k"));
  }
  if (!files) {
    SKEP_ASSIGN(files, FindIdx(options.test_path, "train"));
  }
  if (!files)
    return Error{1201, options.test_path + " holds no idx files by their usual names", ""};
  SKEP_ASSIGN(ArrayPart part, ReadPart(*files));
  return std::optional<ArrayPart>(std::move(part));
}

std::vector<std::string> GivenClasses(const DataOptions& options) {
  return options.plan ? options.plan->classes : options.classes;
}

// The class number of each label value.
class ClassNumbers {
 public:
  explicit ClassNumbers(const std::vector<std::string>& names) : names_(names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      by_name_.emplace(names[i], static_cast<std::int32_t>(i));
    }
    are_integers_ = std::all_of(names.begin(), names.end(), [](const std::string& name) {
      return name.find_first_not_of("-0123456789") == std::string::npos;
    });
  }

  Status Assign(ArrayPart& read, const DataOptions& options) const {
    for (std::size_t row = 0; row < read.labels.size(); ++row) {
      const std::int64_t label = read.labels[row];
      const auto found = by_name_.find(std::to_string(label));
      if (are_integers_ && found != by_name_.end()) {
        read.part.labels.push_back(found->second);
      } else if (!are_integers_ && label >= 0 && label < static_cast<std::int64_t>(names_.size())) {
        read.part.labels.push_back(static_cast<std::int32_t>(label));
      } else {
        const std::string shown = options.plan ? "" : " " + std::to_string(label);
        return Error{MismatchCode(options),
                     read.label_path + ", row " + std::to_string(row) + ": unknown class" + shown +
                         "; known: " + ListOf(names_),
                     ""};
      }
    }
    return Ok();
  }

 private:
  const std::vector<std::string>& names_;
  std::map<std::string, std::int32_t> by_name_;
  bool are_integers_ = false;
};

Result<std::vector<std::string>> ClassesOf(const ArrayPart& train,
                                           const std::optional<ArrayPart>& test,
                                           const DataOptions& options) {
  std::vector<std::string> classes = GivenClasses(options);
  if (!classes.empty()) {
    SKEP_TRY(CheckGivenNames(classes, "data.classes"));
    return classes;
  }
  std::set<std::int64_t> labels(train.labels.begin(), train.labels.end());
  if (test) labels.insert(test->labels.begin(), test->labels.end());
  if (labels.size() > kMostClasses)
    return Error{1202, train.label_path + ": more than 4096 classes", ""};
  for (const std::int64_t label : labels) classes.push_back(std::to_string(label));
  return classes;
}

Status CheckPlan(const std::string& folder, const DataOptions& options) {
  const bool has_names =
      options.plan ? !options.plan->IsUnnamedArray()
                   : !options.features.empty() && options.features != std::vector<std::string>{"x"};
  if (has_names) {
    return Error{MismatchCode(options),
                 folder + " holds arrays without column names; named features are expected", ""};
  }
  if (!options.client_column.empty() && options.client_file.empty()) {
    return Error{1202,
                 folder + " holds arrays, which have no column \"" + options.client_column + "\"",
                 "data.client_file names a CSV file with the owner of each row"};
  }
  return Ok();
}

}  // namespace

Result<RawData> ReadArrays(const std::string& folder, const DataOptions& options) {
  SKEP_TRY(CheckPlan(folder, options));
  SKEP_ASSIGN(const std::optional<IdxFiles> files, FindIdx(folder, "train"));
  if (!files) {
    return Error{1201, folder + " holds no idx files by their usual names",
                 "train-images-idx3-ubyte and train-labels-idx1-ubyte, each optionally .gz"};
  }
  RawData data;
  data.is_array = true;
  SKEP_ASSIGN(ArrayPart train, ReadPart(*files));
  SKEP_ASSIGN(std::optional<ArrayPart> test, ReadTest(folder, options, data.notes));
  if (test && (test->part.input_shape != train.part.input_shape ||
               test->part.bytes.empty() != train.part.bytes.empty())) {
    return Error{1202, folder + ": images of the test part have another size or type", ""};
  }
  SKEP_ASSIGN(data.spec.classes, ClassesOf(train, test, options));
  data.spec.features = {Feature{.name = "x", .categories = {}}};
  if (options.plan) data.spec = *options.plan;
  SKEP_TRY(ApplyScaling(data.spec.features[0], options));
  const ClassNumbers numbers(data.spec.classes);
  SKEP_TRY(numbers.Assign(train, options));
  data.train = std::move(train.part);
  if (test) {
    SKEP_TRY(numbers.Assign(*test, options));
    data.test = std::move(test->part);
  }
  return data;
}

}  // namespace skep::data
