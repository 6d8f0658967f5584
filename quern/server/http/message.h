// A request and a response, free of any socket.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/server/errors.h"

namespace quern::server {

struct HttpRequest {
  std::string method;
  std::string path;                                       // percent-decoded, without the query
  std::string query;                                      // as sent
  std::string authorization, origin, content_type, host;  // header fields; empty when absent
  std::string body;
};

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HeaderList headers;  // beside Content-Type, Content-Length, Connection, Date and Server
};

HttpResponse JsonResponse(const Json& body, int status = 200);
HttpResponse ErrorResponse(const ApiError& error);

// "Not Found" for 404.
std::string_view ReasonPhrase(int status);

// "/v1/models/a%2Fb" to "/v1/models/a/b". Escapes that are no escapes stay as they are.
std::string PercentDecode(std::string_view text);

// How a peer finds the end of a body: by the length of HttpResponse::body, by chunks, or by the
// connection's end.
enum class Framing { kLength, kChunked, kUntilClose };
// Status line and headers, ready to send.
std::string FormatHead(const HttpResponse& response, Framing framing, bool keep_alive);

// One chunk of a chunked body; "" gives "".
std::string FormatChunk(std::string_view data);

}  // namespace quern::server
