#include "shared/model/foreign_model.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "shared/base/try.h"
#include "shared/model/module_names.h"
#include "shared/model/tensor_values.h"

namespace skep::model {
namespace {

using Sizes = std::vector<std::uint64_t>;

// Tensors of one module, by their names within it.
struct Module {
  std::string name;
  std::map<std::string, const FileTensor*> fields;
};

// One layer with tensors: which fields its module must have, and whose tensors they become.
struct Wanted {
  const Layer* layer;
  std::map<std::string, Sizes> fields;
  std::vector<std::size_t> tensors;  // of the model's layout
};

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// "weight_ih_l1" is the field "weight_ih" of the part "l1" of its module.
bool SplitRecurrent(std::string_view last, std::string& module, std::string& field) {
  for (const std::string_view known : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    if (last.substr(0, known.size()) != known) continue;
    const std::string_view rest = last.substr(known.size());
    const bool is_layer = rest.size() > 2 && rest.substr(0, 2) == "_l" &&
                          rest.find_first_not_of("0123456789", 2) == std::string_view::npos;
    if (!rest.empty() && !is_layer) return false;
    field = known;
    if (is_layer) module += (module.empty() ? "" : ".") + std::string(rest.substr(1));
    return true;
  }
  return false;
}

// A tensor that is no field of a module is a parameter by itself: its name is its module's.
std::pair<std::string, std::string> SplitName(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  std::string module = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
  std::string field;
  if (SplitRecurrent(last, module, field)) return {std::move(module), std::move(field)};
  if (IsOneOf(last, {"weight", "bias", "running_mean", "running_var", "in_proj_weight",
                     "in_proj_bias"})) {
    return {std::move(module), last};
  }
  return {name, "weight"};
}

std::vector<Module> ModulesOf(const TensorFile& file) {
  std::map<std::string, Module> modules;
  for (const FileTensor& tensor : file.tensors) {
    if (!IsFloatingPoint(tensor.dtype)) continue;
    auto [name, field] = SplitName(tensor.name);
    // Two names may mean one field ("x" and "x.weight"): then neither fits anything.
    if (modules[name].fields.count(field) > 0) name = tensor.name;
    Module& module = modules[name];
    module.name = name;
    module.fields[field] = &tensor;
  }
  // The output of an attention is a module within it.
  for (auto& [name, module] : modules) {
    if (module.fields.count("in_proj_weight") == 0) continue;
    const auto out = modules.find(name.empty() ? "out_proj" : name + ".out_proj");
    if (out == modules.end()) continue;
    for (const auto& [field, tensor] : out->second.fields) {
      module.fields["out_proj." + field] = tensor;
    }
    out->second.fields.clear();
  }
  std::vector<Module> all;
  for (auto& [name, module] : modules) {
    if (!module.fields.empty()) all.push_back(std::move(module));
  }
  return all;
}

// A parameter by itself is often written for a batch of one: [1, length, features].
Sizes ShapeOf(const FileTensor& tensor) {
  Sizes shape = tensor.shape;
  const bool is_by_itself = SplitName(tensor.name).first == tensor.name;
  if (is_by_itself && shape.size() == 3 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

class WantedFields {
 public:
  explicit WantedFields(const Layout& layout) : layout_(layout) {}

  void operator()(const DenseLayer& layer) {
    Add("weight", layer.weight);
    if (layer.has_bias) Add("bias", layer.bias);
  }
  void operator()(const ConvLayer& layer) {
    Add("weight", layer.weight);
    if (layer.has_bias) Add("bias", layer.bias);
  }
  void operator()(const NormLayer& layer) {
    Add("weight", layer.weight);
    Add("bias", layer.bias);
    if (layer.kind != NormLayer::Kind::kBatch) return;
    Add("running_mean", layer.running_mean);
    Add("running_var", layer.running_var);
  }
  void operator()(const EmbeddingLayer& layer) { Add("weight", layer.weight); }
  void operator()(const PositionsLayer& layer) { Add("weight", layer.weight); }
  void operator()(const RecurrentLayer& layer) {
    Add("weight_ih", layer.weight_ih);
    Add("weight_hh", layer.weight_hh);
    Add("bias_ih", layer.bias);
    wanted.fields["bias_hh"] = wanted.fields["bias_ih"];
    if (layer.kind == RecurrentLayer::Kind::kGru) wanted.tensors.push_back(layer.bias_hn);
  }
  void operator()(const AttentionLayer& layer) {
    Add("in_proj_weight", layer.weight_qkv);
    Add("in_proj_bias", layer.bias_qkv);
    Add("out_proj.weight", layer.weight_out);
    Add("out_proj.bias", layer.bias_out);
  }
  template <class WithoutTensors>
  void operator()(const WithoutTensors&) {}

  Wanted wanted{.layer = nullptr, .fields = {}, .tensors = {}};

 private:
  void Add(const char* field, std::size_t tensor) {
    const std::vector<std::uint32_t>& shape = layout_.tensors()[tensor].shape;
    wanted.fields[field] = {shape.begin(), shape.end()};
    wanted.tensors.push_back(tensor);
  }
  const Layout& layout_;
};

std::vector<Wanted> WantedOf(const ModelSpec& spec) {
  std::vector<Wanted> all;
  for (const Layer& layer : spec.layers()) {
    WantedFields fields(*spec.layout());
    fields.wanted.layer = &layer;
    std::visit(fields, layer);
    if (!fields.wanted.fields.empty()) all.push_back(std::move(fields.wanted));
  }
  return all;
}

// Equal for a layer and a module that fits it: the names of the fields and their shapes.
std::string SignatureOf(const std::map<std::string, Sizes>& fields) {
  std::string text;
  for (const auto& [field, shape] : fields) text += field + ShapeText(shape);
  return text;
}
std::string SignatureOf(const Module& module) {
  std::map<std::string, Sizes> fields;
  for (const auto& [field, tensor] : module.fields) fields[field] = ShapeOf(*tensor);
  return SignatureOf(fields);
}

// Layers and modules of one signature.
struct Bucket {
  std::vector<const Wanted*> layers;  // in the model's order
  std::vector<const Module*> modules;
};

Status Sort(std::vector<const Module*>& modules) {
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (CompareModules(modules[i]->name, modules[j]->name) != Order::kOpen) continue;
      return Error{1301,
                   "\"" + modules[j]->name + "\" and \"" + modules[i]->name +
                       "\" have equal shapes, and their names do not say which comes first",
                   "rename the file's tensors to Skep's names: docs/models.md lists them"};
    }
  }
  std::sort(modules.begin(), modules.end(), [](const Module* a, const Module* b) {
    return CompareModules(a->name, b->name) == Order::kBefore;
  });
  return Ok();
}

class Filler {
 public:
  Filler(const Module& module, Params& params) : module_(module), params_(params) {}

  // The fields of the layer in the order of WantedFields.
  Status Copy(const Wanted& wanted, std::initializer_list<const char*> fields) {
    auto tensor = wanted.tensors.begin();
    for (const char* field : fields) {
      if (wanted.fields.count(field) == 0) continue;
      SKEP_TRY(CopyValues(*module_.fields.at(field), params_.Tensor(*tensor++)));
    }
    return Ok();
  }
  // Two biases that are added become one; that of the new gate of a GRU stays apart.
  Status CopyRecurrent(const Wanted& wanted, const RecurrentLayer& layer) {
    SKEP_TRY(Copy(wanted, {"weight_ih", "weight_hh", "bias_ih"}));
    std::vector<float> other(module_.fields.at("bias_hh")->shape.at(0));
    SKEP_TRY(CopyValues(*module_.fields.at("bias_hh"), other));
    const std::span<float> bias = params_.Tensor(layer.bias);
    const bool is_gru = layer.kind == RecurrentLayer::Kind::kGru;
    const std::size_t summed = is_gru ? std::size_t{2} * layer.hidden : bias.size();
    for (std::size_t i = 0; i < summed; ++i) bias[i] += other[i];
    if (is_gru) {
      std::copy(other.begin() + static_cast<std::ptrdiff_t>(summed), other.end(),
                params_.Tensor(layer.bias_hn).begin());
    }
    return Ok();
  }

 private:
  const Module& module_;
  Params& params_;
};

Status Fill(const Wanted& wanted, const Module& module, Params& params) {
  Filler filler(module, params);
  if (const auto* recurrent = std::get_if<RecurrentLayer>(wanted.layer)) {
    return filler.CopyRecurrent(wanted, *recurrent);
  }
  return filler.Copy(wanted, {"weight", "bias", "running_mean", "running_var", "in_proj_weight",
                              "in_proj_bias", "out_proj.weight", "out_proj.bias"});
}

}  // namespace

Status FillFromForeign(const ModelSpec& spec, const TensorFile& file, Params& params) {
  const std::vector<Module> modules = ModulesOf(file);
  const std::vector<Wanted> wanted = WantedOf(spec);
  std::map<std::string, Bucket> buckets;
  for (const Wanted& layer : wanted) buckets[SignatureOf(layer.fields)].layers.push_back(&layer);
  for (const Module& module : modules) buckets[SignatureOf(module)].modules.push_back(&module);
  Difference difference;
  for (const auto& [signature, bucket] : buckets) {
    if (bucket.layers.size() == bucket.modules.size()) continue;
    for (const Wanted* layer : bucket.layers) {
      for (const std::size_t tensor : layer->tensors) {
        difference.AddMissing(spec.layout()->tensors()[tensor]);
      }
    }
    for (const Module* module : bucket.modules) {
      for (const auto& [field, tensor] : module->fields) difference.AddLeftOver(*tensor);
    }
  }
  if (!difference.IsEmpty()) return difference.AsError();
  for (auto& [signature, bucket] : buckets) {
    SKEP_TRY(Sort(bucket.modules));
    for (std::size_t i = 0; i < bucket.layers.size(); ++i) {
      SKEP_TRY(Fill(*bucket.layers[i], *bucket.modules[i], params));
    }
  }
  return Ok();
}

}  // namespace skep::model
