// A plain blocking HTTP client over one socket: tests decide every byte that is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace quern::server {

struct ClientResponse {
  int status = 0;                              // 0: the connection ended before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // the body came to its end
};

// Reads give up after `timeout`. Not thread-safe.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port, std::chrono::milliseconds timeout = std::chrono::seconds(20));
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  // False when the peer does not take it.
  bool Send(std::string_view bytes);
  void SendRequest(std::string_view method, std::string_view path, std::string_view body = "",
                   std::string_view more_headers = "");
  ClientResponse Read(bool is_head = false);
  // SendRequest, then Read.
  ClientResponse Do(std::string_view method, std::string_view path, std::string_view body = "",
                    std::string_view more_headers = "");
  // Reads until `text` has come, or the end. What has come so far.
  std::string ReadUntil(std::string_view text);
  // True when the peer has closed and nothing is left to read.
  bool AtEnd();
  void Close();
  // Makes the kernel's receive buffer small, for a slow reader. Before anything is read.
  void ShrinkReceiveBuffer();

 private:
  bool Fill();
  std::string Line();

  int fd_ = -1;
  std::string buffer_;
};

}  // namespace quern::server
