#include "quern/server/openai/models.h"

namespace quern::server {
namespace {

Json ModelJson(const Services& services, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", services.model.created},
          {"owned_by", "quern"},
          {"root", services.model.name},
          {"parent", nullptr},
          {"max_model_len", services.model.max_model_len},
          {"context_length", services.model.max_model_len}};
}

}  // namespace

HttpResponse ListModels(Services& services, const HttpRequest&) {
  Json body = {{"object", "list"}};
  body["data"] = Json::array();
  for (const std::string& name : services.options.served_model_names) {
    body["data"].push_back(ModelJson(services, name));
  }
  return JsonResponse(body);
}

HttpResponse GetModel(Services& services, const HttpRequest& request) {
  const std::string name = request.path.substr(std::string("/v1/models/").size());
  if (auto error = services.CheckModel(name)) return ErrorResponse(*error);
  return JsonResponse(ModelJson(services, name));
}

}  // namespace quern::server
