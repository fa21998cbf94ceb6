// Conversions of the plan.
#include <memory>

#include "shared/wire/convert.h"
#include "shared/wire/plan.pb.h"

namespace skep::wire {
namespace {

// Takes the elements of a list of protobuf messages from its end, each freed when it has been
// taken: a plan of many small parts never stands twice in memory.
template <class Proto, class T>
void TakeMessages(google::protobuf::RepeatedPtrField<Proto>* from, std::vector<T>& to);

void ToProto(const TensorSpec& from, v1::TensorSpec& to) {
  to.set_name(from.name);
  to.set_dtype(Number(from.dtype));
  to.mutable_shape()->Add(from.shape.begin(), from.shape.end());
  to.set_role(Number(from.role));
}
void FromProto(const v1::TensorSpec& from, TensorSpec& to) {
  to.name = from.name();
  to.dtype = TensorType{from.dtype()};
  to.shape.assign(from.shape().begin(), from.shape().end());
  if (from.role() != 0) to.role = TensorRole{from.role()};  // absent: averaged
}

void ToProto(const Param& from, v1::Param& to) {
  to.set_key(from.key);
  to.set_number(from.number);
  to.set_text(from.text);
}
void FromProto(const v1::Param& from, Param& to) {
  to.key = from.key();
  to.number = from.number();
  to.text = from.text();
}

void ToProto(const Feature& from, v1::Feature& to) {
  to.set_name(from.name);
  to.set_kind(Number(from.kind));
  to.set_offset(from.offset);
  if (from.scale != 1) to.set_scale(from.scale);
  for (const std::string& category : from.categories) to.add_categories(category);
}
void FromProto(const v1::Feature& from, Feature& to) {
  to.name = from.name();
  to.kind = FeatureKind{from.kind()};
  to.offset = from.offset();
  if (from.scale() != 0) to.scale = from.scale();  // absent: 1
  to.categories.assign(from.categories().begin(), from.categories().end());
}

void ToProto(const DataSpec& from, v1::DataSpec& to) {
  to.set_task(Number(from.task));
  for (const Feature& feature : from.features) ToProto(feature, *to.add_features());
  for (const std::string& name : from.classes) to.add_classes(name);
  to.set_label(from.label);
}
void FromProto(v1::DataSpec& from, DataSpec& to) {
  to.task = DataTask{from.task()};
  TakeMessages(from.mutable_features(), to.features);
  to.classes.assign(from.classes().begin(), from.classes().end());
  to.label = from.label();
}

void ToProto(const Plan& from, v1::Plan& to) {
  to.set_schema(from.schema);
  for (const TensorSpec& tensor : from.layout) ToProto(tensor, *to.add_layout());
  for (const Param& param : from.params) ToProto(param, *to.add_params());
  for (const std::string& name : from.metrics) to.add_metrics(name);
  if (from.data) ToProto(*from.data, *to.mutable_data());
}
void FromProto(v1::Plan& from, Plan& to) {
  to.schema = from.schema();
  if (from.has_data()) FromProto(*from.mutable_data(), to.data.emplace());
  TakeMessages(from.mutable_layout(), to.layout);
  TakeMessages(from.mutable_params(), to.params);
  to.metrics.assign(from.metrics().begin(), from.metrics().end());
}

template <class Proto, class T>
void TakeMessages(google::protobuf::RepeatedPtrField<Proto>* from, std::vector<T>& to) {
  to.resize(static_cast<std::size_t>(from->size()));
  for (std::size_t i = to.size(); i > 0; --i) {
    const std::unique_ptr<Proto> element(from->ReleaseLast());
    FromProto(*element, to[i - 1]);
  }
}

}  // namespace

SKEP_WIRE_TIE(Plan, v1::Plan)

}  // namespace skep::wire
