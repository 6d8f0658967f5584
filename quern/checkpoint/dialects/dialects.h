// The registry of quantization dialects: from quantization_config to rules.
#pragma once

#include <memory>
#include <string>

#include "quern/base/json.h"
#include "quern/checkpoint/dialects/dialect.h"
#include "quern/checkpoint/problems.h"

namespace quern::checkpoint {

// Reads a quantization_config (or the content of hf_quant_config.json); null means unquantized.
// `file` stands in front of messages: "config.json: quantization_config". nullptr when the dialect
// or its scheme is not supported: the error then names it and lists what is. Smaller faults (a bad
// pattern) are errors too, but rules come back, so that the rest of the checkpoint can be looked
// at. Never throws or crashes whatever the JSON holds.
std::unique_ptr<Dialect> ParseQuantization(const Json& json, const std::string& file,
                                           Problems& problems);

// What quern reads, in one line, for messages.
std::string SupportedQuantizations();

// The parsers behind it, one file each. Each returns nullptr after an error that makes the rules
// useless.
std::unique_ptr<Dialect> MakeUnquantized();
std::unique_ptr<Dialect> ParseFp8(const Json& json, const std::string& file, Problems& problems);
std::unique_ptr<Dialect> ParseQuark(const Json& json, const std::string& file, Problems& problems);
std::unique_ptr<Dialect> ParseCompressedTensors(const Json& json, const std::string& file,
                                                Problems& problems);
std::unique_ptr<Dialect> ParseModelopt(const Json& json, const std::string& file,
                                       Problems& problems);
std::unique_ptr<Dialect> ParseGptOssMxfp4(const Json& json, const std::string& file,
                                          Problems& problems);

}  // namespace quern::checkpoint
