#include "quern/testing/golden.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "quern/testing/layouts.h"

namespace quern::testing {
namespace {

namespace fs = std::filesystem;

// Reading is straight; whatever the JSON library throws is caught once, in ReadChecked.
template <typename T>
std::vector<T> List(const Json& json, const char* name) {
  return json.at(name).get<std::vector<T>>();
}

CheckpointSpec ReadSpec(const Json& json) {
  CheckpointSpec spec;
  spec.config = json.at("config");
  const Result<Layout> layout = LayoutFromName(json.at("layout").get<std::string>());
  if (!layout.ok()) throw std::runtime_error(layout.status().message());
  spec.layout = *layout;
  spec.weights.seed = json.at("seed").get<uint64_t>();
  spec.weights.router_bias_offset = json.at("router_bias_offset").get<float>();
  spec.weights.router_bias_spread = json.at("router_bias_spread").get<float>();
  return spec;
}

Golden::Run ReadRun(const Json& json) {
  Golden::Run run;
  run.prompt = List<int32_t>(json, "prompt");
  for (const Json& row : json.at("rows")) {
    run.rows.push_back({row.at("position").get<int64_t>(), List<float>(row, "logits"),
                        row.at("argmax").get<int32_t>(), row.at("margin").get<float>()});
  }
  return run;
}

Golden::Greedy ReadGreedy(const Json& json) {
  return {List<int32_t>(json, "prompt"), List<int32_t>(json, "tokens"),
          List<float>(json, "margins"), json.at("agreed_tokens").get<int64_t>(),
          json.at("max_abs_logit").get<float>()};
}

Golden GoldenFrom(const Json& json) {
  Golden golden;
  golden.name = json.at("name").get<std::string>();
  const Json& checkpoint = json.at("checkpoint");
  if (checkpoint.contains("folder")) {
    golden.stored_folder = checkpoint.at("folder").get<std::string>();
  } else {
    golden.generated = ReadSpec(checkpoint);
  }
  golden.weights_crc32 = checkpoint.at("weights_crc32").get<uint32_t>();
  const std::string compute = json.at("compute").get<std::string>();
  if (compute != "f32" && compute != "bf16") throw std::runtime_error("compute " + compute);
  golden.compute = compute == "f32" ? Dtype::kF32 : Dtype::kBf16;
  golden.latent_norm_eps = json.at("latent_norm_eps").get<float>();
  for (const Json& run : json.at("runs")) golden.runs.push_back(ReadRun(run));
  for (const Json& greedy : json.at("greedy")) golden.greedy.push_back(ReadGreedy(greedy));
  return golden;
}

RouterGolden RouterGoldenFrom(const Json& json) {
  RouterGolden golden;
  golden.num_tokens = json.at("num_tokens").get<int64_t>();
  golden.hidden_size = json.at("hidden_size").get<int64_t>();
  golden.num_experts = json.at("num_experts").get<int64_t>();
  golden.experts_per_token = json.at("experts_per_token").get<int64_t>();
  golden.routed_scaling_factor = json.at("routed_scaling_factor").get<float>();
  golden.norm_topk_prob = json.at("norm_topk_prob").get<bool>();
  golden.hidden = List<float>(json, "hidden");
  golden.weight = List<float>(json, "weight");
  golden.bias = List<float>(json, "bias");
  golden.experts = List<int32_t>(json, "experts");
  golden.weights = List<float>(json, "weights");
  return golden;
}

template <typename T>
Result<T> ReadChecked(const std::string& path, T (*from)(const Json&)) {
  QUERN_ASSIGN(const Json json, ReadJsonFile(path));
  try {
    return from(json);
  } catch (const std::exception& error) {
    return InvalidArgument("{}: not a golden this reader knows: {}", path, error.what());
  }
}

Result<std::string> ReadBytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) return NotFound("{}: cannot read", path.string());
  return bytes;
}

// Over all weight files in order of their names.
Result<uint32_t> WeightsCrc32(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (error) return NotFound("{}: {}", directory.string(), error.message());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    QUERN_ASSIGN(const std::string bytes, ReadBytes(file));
    all += bytes;
  }
  return Crc32(all);
}

}  // namespace

Result<Golden> ReadGolden(const std::string& path) { return ReadChecked(path, GoldenFrom); }

Result<RouterGolden> ReadRouterGolden(const std::string& path) {
  return ReadChecked(path, RouterGoldenFrom);
}

Status MakeGoldenCheckpoint(const Golden& golden, const std::string& golden_folder,
                            const std::string& directory) {
  if (golden.generated.has_value()) {
    QUERN_TRY(WriteCheckpoint(directory, *golden.generated));
  } else {
    std::error_code error;
    fs::create_directories(directory, error);
    fs::copy(golden_folder + "/" + golden.stored_folder, directory,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
    if (error) return FailedPrecondition("{}: cannot copy: {}", directory, error.message());
  }
  QUERN_ASSIGN(const uint32_t crc, WeightsCrc32(directory));
  if (crc != golden.weights_crc32) {
    return FailedPrecondition(
        "{}: the weights have CRC-32 {:#010x}, the golden was made from {:#010x}; run "
        "tools/goldens/make_all.sh if the generator was changed on purpose",
        golden.name, crc, golden.weights_crc32);
  }
  QUERN_ASSIGN(Json config, ReadJsonFile(directory + "/config.json"));
  config["dtype"] = golden.compute == Dtype::kF32 ? "float32" : "bfloat16";
  std::ofstream file(directory + "/config.json", std::ios::trunc);
  file << DumpJson(config, 2) << "\n";
  file.flush();
  return file ? OkStatus() : FailedPrecondition("{}/config.json: cannot write", directory);
}

uint32_t Crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = (t[i] >> 1) ^ ((t[i] & 1) * 0xEDB88320u);
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

}  // namespace quern::testing
