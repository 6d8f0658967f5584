#include "quern/server/testing/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "quern/base/check.h"

namespace quern::server {

HttpClient::HttpClient(uint16_t port, std::chrono::milliseconds timeout) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  QUERN_CHECK(fd_ >= 0, "no socket");
  timeval limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_usec = timeout.count() % 1000 * 1000;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Close();
}

HttpClient::~HttpClient() { Close(); }

void HttpClient::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void HttpClient::ShrinkReceiveBuffer() {
  const int bytes = 4096;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

bool HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void HttpClient::SendRequest(std::string_view method, std::string_view path, std::string_view body,
                             std::string_view more_headers) {
  std::string request =
      std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n";
  if (!body.empty()) {
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  request += std::string(more_headers) + "\r\n" + std::string(body);
  Send(request);
}

bool HttpClient::Fill() {
  if (fd_ < 0) return false;
  char bytes[16 << 10];
  const ssize_t received = ::recv(fd_, bytes, sizeof(bytes), 0);
  if (received <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(received));
  return true;
}

std::string HttpClient::Line() {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return {};
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

ClientResponse HttpClient::Read(bool is_head) {
  ClientResponse response;
  const std::string status = Line();
  if (status.size() < 12) return response;
  response.status = std::stoi(status.substr(9, 3));
  for (std::string line = Line(); !line.empty(); line = Line()) {
    const size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    response.headers[name] = line.substr(std::min(line.size(), colon + 2));
  }
  if (is_head || response.status == 204 || response.status == 100) {
    response.complete = true;
  } else if (response.headers.count("content-length") > 0) {
    const size_t length = std::stoul(response.headers["content-length"]);
    while (buffer_.size() < length && Fill()) {
    }
    response.complete = buffer_.size() >= length;
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
  } else if (response.headers.count("transfer-encoding") > 0) {
    while (true) {
      const std::string size_line = Line();
      if (size_line.empty()) return response;
      const size_t size = std::stoul(size_line, nullptr, 16);
      while (buffer_.size() < size + 2 && Fill()) {
      }
      response.body += buffer_.substr(0, size);
      buffer_.erase(0, size + 2);
      if (size == 0) break;
    }
    response.complete = true;
  } else {
    while (Fill()) {
    }
    response.body = std::move(buffer_);
    buffer_.clear();
    response.complete = true;
  }
  return response;
}

ClientResponse HttpClient::Do(std::string_view method, std::string_view path, std::string_view body,
                              std::string_view more_headers) {
  SendRequest(method, path, body, more_headers);
  return Read(method == "HEAD");
}

std::string HttpClient::ReadUntil(std::string_view text) {
  while (buffer_.find(text) == std::string::npos) {
    if (!Fill()) break;
  }
  return buffer_;
}

bool HttpClient::AtEnd() {
  if (!buffer_.empty()) return false;
  char byte;
  const ssize_t received = ::recv(fd_, &byte, 1, MSG_PEEK);
  return received == 0 || (received < 0 && errno == ECONNRESET);  // not: nothing came in time
}

}  // namespace quern::server
