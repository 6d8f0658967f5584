//! The crates quern uses, behind the C ABI of `quern_rust.h`. See README.md for the memory rules.

mod chat_template;
mod ffi;
mod local_time;
mod python_json;
mod python_number;
mod python_repr;
mod python_str;
mod template_source;
mod tokenizer;
