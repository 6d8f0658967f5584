// C ABI of the static library built from this folder: the `tokenizers` and `minijinja` crates.
//
// Rules, for every function here:
//   - Text and arrays passed in stay the caller's. They are (pointer, length) pairs, need no NUL at
//   the end, and are
//     not kept after the call. Length 0 may come with a null pointer.
//   - What a function writes into a QuernRustBuffer or a handle belongs to Rust: give it back to
//     quern_rust_buffer_free or to the handle's own free function, exactly once. Freeing null does
//     nothing.
//   - On QUERN_RUST_OK the outputs are set and `error` is left empty; on any other code only
//   `error` is set, to a
//     message in UTF-8. Both pointers must be valid.
//   - No panic crosses the boundary: it is caught and becomes QUERN_RUST_PANIC with its message.
//   - Handles are immutable, so that any number of threads may use one at the same time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  QUERN_RUST_OK = 0,
  QUERN_RUST_INVALID =
      1,  // the input is wrong; the message says what and, for files, in which line
  QUERN_RUST_UNSUPPORTED = 2,  // the input is well-formed, but quern does not do it
  QUERN_RUST_RAISED = 3,       // the template called raise_exception; the message is the template's
  QUERN_RUST_PANIC = 4,        // a fault in this library or a crate
} QuernRustCode;

// `len` bytes at `data`, owned by Rust. Zero-initialise before the call that fills it.
typedef struct {
  uint8_t* data;
  size_t len;
  size_t capacity;
} QuernRustBuffer;

void quern_rust_buffer_free(QuernRustBuffer buffer);

// ---- Tokenizer
// ----------------------------------------------------------------------------------------------

typedef struct QuernTokenizer QuernTokenizer;

// From the text of a tokenizer.json. Truncation and padding set in it are switched off. Only
// byte-level decoders are supported, since only they allow a token's bytes to be known without its
// neighbours.
QuernRustCode quern_tokenizer_new(const char* json, size_t json_len, QuernTokenizer** out,
                                  QuernRustBuffer* error);
void quern_tokenizer_free(QuernTokenizer* tokenizer);

// Token ids of `text` as uint32_t in native byte order: out->len is 4 x their number.
QuernRustCode quern_tokenizer_encode(const QuernTokenizer* tokenizer, const char* text,
                                     size_t text_len, int32_t add_special_tokens,
                                     QuernRustBuffer* out, QuernRustBuffer* error);

// The reference's decode: bytes that are not UTF-8 become U+FFFD, ids without a token are left out.
QuernRustCode quern_tokenizer_decode(const QuernTokenizer* tokenizer, const uint32_t* ids,
                                     size_t num_ids, int32_t skip_special_tokens,
                                     QuernRustBuffer* out, QuernRustBuffer* error);

// Every token the tokenizer knows, in order of id, as records of
//   uint32_t id, uint32_t flags (1 = special, 2 = added), uint32_t bytes_len, uint32_t content_len,
//   bytes, content
// without padding: `bytes` is what the token decodes to, `content` its text in the vocabulary.
QuernRustCode quern_tokenizer_vocabulary(const QuernTokenizer* tokenizer, QuernRustBuffer* out,
                                         QuernRustBuffer* error);

// ---- Chat template
// ------------------------------------------------------------------------------------------

typedef struct QuernTemplate QuernTemplate;

// Compiles Jinja source. A syntax error begins with "line N: ".
QuernRustCode quern_template_new(const char* source, size_t source_len, QuernTemplate** out,
                                 QuernRustBuffer* error);
void quern_template_free(QuernTemplate* tmpl);

// Renders with a context given as the text of a JSON object. An error begins with "line N: ",
// except for QUERN_RUST_RAISED.
QuernRustCode quern_template_render(const QuernTemplate* tmpl, const char* context_json,
                                    size_t context_json_len, QuernRustBuffer* out,
                                    QuernRustBuffer* error);

#ifdef __cplusplus
}  // extern "C"
#endif
